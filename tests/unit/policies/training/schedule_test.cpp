#include "policies/training/schedule.hpp"

#include <catch2/catch.hpp>

namespace memopd {
namespace {

OptimizerConfig optimizer(const char* schedule) {
  OptimizerConfig config;
  config.lr = 2.0;
  config.schedule = schedule;
  config.min_lr_frac = 0.1;
  return config;
}

}  // namespace

TEST_CASE("warm-up reaches the full rate at its last optimizer step", "[schedule]") {
  OptimizerConfig config = optimizer("constant");
  config.warmup_steps = 4;
  CHECK(learning_rate(config, 0, 100) == 0.5);
  CHECK(learning_rate(config, 3, 100) == 2.0);
  CHECK(learning_rate(config, 99, 100) == 2.0);
}

TEST_CASE("linear and cosine end at min_lr_frac and stay there", "[schedule]") {
  CHECK(learning_rate(optimizer("linear"), 50, 100) == Approx(2.0 * 0.55));
  CHECK(learning_rate(optimizer("linear"), 100, 100) == Approx(0.2));
  CHECK(learning_rate(optimizer("linear"), 500, 100) == Approx(0.2));
  CHECK(learning_rate(optimizer("cosine"), 0, 100) == Approx(2.0));
  CHECK(learning_rate(optimizer("cosine"), 50, 100) == Approx(2.0 * 0.55));
  CHECK(learning_rate(optimizer("cosine"), 100, 100) == Approx(0.2));
}

}  // namespace memopd

#include "policies/engine/sampler.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "runtime/base/random.hpp"

using namespace memopd;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::optional<SampledToken> sample(const std::vector<float>& logits, const Sampling& sampling, double u) {
  SamplerScratch scratch;
  return sample_token(logits, sampling, u, scratch);
}

/// Ids that u = 0, 0.01, .. 0.99 give.
std::vector<int> reachable(const std::vector<float>& logits, const Sampling& sampling) {
  std::vector<int> counts(logits.size());
  for (int i = 0; i < 100; ++i) ++counts[static_cast<std::size_t>(sample(logits, sampling, i / 100.0)->id)];
  return counts;
}

}  // namespace

TEST_CASE("log-probs are of the full softmax at the temperature, with the surviving mass beside them",
          "[sampler][pain:T12]") {
  // softmax([4, 2, 0]) = [.866813, .117310, .015876]; top_p .9 keeps the first two.
  const Sampling sampling{.temperature = 0.5, .top_p = 0.9};
  const std::vector<float> logits = {2, 1, 0};
  const double z = std::exp(4.0) + std::exp(2.0) + 1.0;

  const auto first = sample(logits, sampling, 0.0);
  const auto second = sample(logits, sampling, 0.999);

  REQUIRE(first);
  REQUIRE(second);
  CHECK(first->id == 0);
  CHECK(first->log_prob == Approx(4.0 - std::log(z)).margin(1e-6));
  CHECK(first->log_prob == Approx(-0.1429317).margin(1e-6));
  CHECK(first->log_kept_mass == Approx(std::log((z - 1.0) / z)).margin(1e-6));
  CHECK(second->id == 1);
  CHECK(second->log_prob == Approx(2.0 - std::log(z)).margin(1e-6));
}

TEST_CASE("temperature 0 takes the lowest of the most probable ids, at temperature 1", "[sampler][pain:T12]") {
  const auto token = sample({0, 3, 3, 1}, {.temperature = 0}, 0.99);

  REQUIRE(token);
  CHECK(token->id == 1);
  CHECK(token->log_prob == Approx(3.0 - std::log(1 + 2 * std::exp(3.0) + std::exp(1.0))).margin(1e-6));
  CHECK(token->log_kept_mass == 0.0f);
}

TEST_CASE("ids are drawn in id order with their probabilities", "[sampler]") {
  // Probabilities .25, .5, 0, .25: u is cut at .25 and .75, and the id in between can never come.
  const std::vector<float> logits = {0, std::log(2.0f), -kInfinity, 0};
  CHECK(reachable(logits, {}) == std::vector<int>{25, 50, 0, 25});
}

TEST_CASE("top_k, top_p and min_p keep what they say, the lowest id on ties", "[sampler]") {
  const std::vector<float> logits = {std::log(1.0f), std::log(4.0f), std::log(1.0f),
                                     std::log(2.0f)};  // .125 .5 .125 .25
  CHECK(reachable(logits, {.top_k = 1}) == std::vector<int>{0, 100, 0, 0});
  const auto three = reachable(logits, {.top_k = 3});
  CHECK(three[0] > 0);
  CHECK(three[2] == 0);
  CHECK(reachable(logits, {.top_p = 0.5}) == std::vector<int>{0, 100, 0, 0});
  const auto mass = reachable(logits, {.top_p = 0.6});
  CHECK(mass[0] == 0);
  CHECK(mass[3] > 0);
  CHECK(reachable(logits, {.min_p = 0.6}) == std::vector<int>{0, 100, 0, 0});
  CHECK(reachable(logits, {.min_p = 0.4})[3] > 0);
  CHECK(cuts({.top_p = 0.9}));
  CHECK(cuts({.top_k = 1}));
  CHECK(cuts({.min_p = 0.1}));
  CHECK_FALSE(cuts({}));
}

TEST_CASE("frequencies follow the probabilities", "[sampler]") {
  const std::vector<float> logits = {1.0f, 0.0f, -1.0f};
  const double z = std::exp(1.0) + 1 + std::exp(-1.0);
  std::vector<int> counts(3);
  for (std::uint64_t i = 0; i < 20000; ++i)
    ++counts[static_cast<std::size_t>(sample(logits, {}, philox_uniform(9, i))->id)];

  // Standard error below .0036; 4 of them.
  CHECK(counts[0] / 20000.0 == Approx(std::exp(1.0) / z).margin(0.015));
  CHECK(counts[2] / 20000.0 == Approx(std::exp(-1.0) / z).margin(0.015));
}

TEST_CASE("logits that are no distribution give no token", "[sampler][error]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK_FALSE(sample({0, nan, 1}, {}, 0.5));
  CHECK_FALSE(sample({nan, 0}, {.temperature = 0}, 0.5));
  CHECK_FALSE(sample({0, kInfinity}, {}, 0.5));
  CHECK_FALSE(sample({-kInfinity, -kInfinity}, {}, 0.5));
}

#include "policies/model/initialization.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "policies/model/weights.hpp"
#include "runtime/config/schema.hpp"
#include "tests/unit/policies/model/tiny_models.hpp"

using namespace memopd;
using namespace memopd::testing;

namespace {

double std_of(const at::Tensor& tensor) { return tensor.std().item<double>(); }

}  // namespace

TEST_CASE("random weights have the stated spread", "[initialization]") {
  const auto config = model_config_from_shape(ModelShapeConfig{}, 512, {}).value();
  const Transformer model = *random_transformer(config, init_options(ModelShapeConfig{}, 1), at::kDouble);
  const DecoderLayer& layer = model.layers()[1];

  // Standard error of a sample deviation: sigma / sqrt(2 n); n >= 9,216 values here, so 5 sigma are below 4 %.
  CHECK(std_of(model.embedding()) == Approx(0.5).epsilon(0.04));
  CHECK(std_of(layer.qkv_weight) == Approx(1 / std::sqrt(96.0)).epsilon(0.04));
  CHECK(std_of(layer.gate_up_weight) == Approx(1 / std::sqrt(96.0)).epsilon(0.04));
  CHECK(std_of(layer.o_weight) == Approx(0.5 / std::sqrt(96.0)).epsilon(0.04));
  CHECK(std_of(layer.down_weight) == Approx(0.5 / std::sqrt(240.0)).epsilon(0.04));
  CHECK(layer.qkv_bias.abs().max().item<double>() == 0.0);
  CHECK(layer.input_norm.eq(1.0).all().item<bool>());
  CHECK(model.final_norm().eq(0.2).all().item<bool>());
}

TEST_CASE("the seed alone decides the weights", "[initialization]") {
  const auto fingerprint = [](std::uint64_t seed) {
    return weight_fingerprint(to_weight_set(tiny_model(tiny_config(), seed), 0, 0));
  };

  CHECK(fingerprint(5) == fingerprint(5));
  CHECK(fingerprint(5) != fingerprint(6));
}

TEST_CASE("a previous-token head scores the token at its offset highest", "[initialization]") {
  const auto config = model_config_from_shape(ModelShapeConfig{}, 512, {}).value();
  const Transformer model = *random_transformer(config, init_options(ModelShapeConfig{}, 1), at::kDouble);
  const at::Tensor bias = model.layers()[0].qkv_bias;
  const std::int64_t dh = config.head_dim, half = dh / 2;
  const auto at_position = [&](const at::Tensor& row, std::int64_t position) {
    const at::Tensor rope = model.rope_rows(at::full({1}, position, at::kLong))[0];
    const at::Tensor c = rope.narrow(0, 0, half), s = rope.narrow(0, half, half);
    const at::Tensor a = row.narrow(0, 0, half), b = row.narrow(0, half, half);
    return at::cat({a * c - b * s, b * c + a * s});
  };
  for (std::int64_t head = 0; head < 3; ++head) {
    const at::Tensor q = at_position(bias.narrow(0, head * dh, dh), 30);
    std::vector<double> scores;
    for (std::int64_t back = 0; back <= 30; ++back) {
      const at::Tensor k = at_position(bias.narrow(0, (4 + head) * dh, dh), 30 - back);
      scores.push_back(q.dot(k).item<double>() / std::sqrt(static_cast<double>(dh)));
    }
    const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
    CHECK(best == head + 1);
    // One step off costs sum (1 - cos theta) a^2 / sqrt(Dh): the stated margin of 5, up to the angles left out.
    CHECK(scores[static_cast<std::size_t>(head + 1)] - scores[static_cast<std::size_t>(head)] ==
          Approx(5.0).epsilon(0.01));
  }
  const at::Tensor& weight = model.layers()[0].qkv_weight;
  CHECK(std_of(weight.narrow(0, 0, 3 * dh)) == Approx(0.1 / std::sqrt(96.0)).epsilon(0.05));
  CHECK(std_of(weight.narrow(0, 3 * dh, dh)) == Approx(1.0 / std::sqrt(96.0)).epsilon(0.05));
}

TEST_CASE("options outside their range are refused", "[initialization][error]") {
  const auto code = [](const ModelConfig& config, const InitOptions& options) {
    return random_transformer(config, options).error().code;
  };
  CHECK(code(tiny_config(), {.embedding_std = 0}) == ErrorCode::invalid_argument);
  CHECK(code(tiny_config(), {.previous_token_heads = 5}) == ErrorCode::invalid_argument);
  CHECK(code(tiny_config("llama"), {.previous_token_heads = 1}) == ErrorCode::invalid_argument);
  ModelConfig broken = tiny_config();
  broken.vocab_size = 0;
  CHECK(code(broken, {}) == ErrorCode::invalid_argument);
}

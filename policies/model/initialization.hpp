// Random weights from a seed, the same on every machine and whatever else drew random numbers.
//
// Each tensor draws from its own stream, named by its Hugging Face name: N(0, embedding_std) for the embedding (and an
// untied head), N(0, 1/sqrt(fan_in)) for matrices, times residual_scale for o_proj and down_proj; biases 0, norms 1,
// the final norm final_norm_weight.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "policies/model/transformer.hpp"
#include "runtime/base/expected.hpp"

namespace memopd {

struct ModelShapeConfig;

struct InitOptions {
  std::uint64_t seed = 0;
  double embedding_std = 0.5;             ///< > 0
  double final_norm_weight = 0.2;         ///< > 0
  double residual_scale = 0.5;            ///< of o_proj and down_proj; > 0
  std::int32_t previous_token_heads = 0;  ///< heads 0 .. n-1 of layer 0 that attend to t-1 .. t-n; needs attention_bias
};

[[nodiscard]] InitOptions init_options(const ModelShapeConfig& shape, std::uint64_t seed);

/// @error invalid_argument  a config or option outside its range; more previous-token heads than heads, or without bias
Expected<Transformer> random_transformer(const ModelConfig& config, const InitOptions& options,
                                         at::ScalarType dtype = at::kFloat);

}  // namespace memopd

#include "tools/bench/padded_forward.hpp"

#include <ATen/ops/addmm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "policies/model/decoder_functions.hpp"

namespace memopd {
namespace {

PaddedBatch pad_one(std::span<const Invocation* const> invocations, std::int64_t length) {
  const auto batch_size = static_cast<std::int64_t>(invocations.size());
  PaddedBatch batch;
  batch.input_ids = at::zeros({batch_size, length}, at::kLong);
  batch.next_token_ids = at::zeros({batch_size * length}, at::kLong);
  batch.position_ids = at::arange(length, at::kLong).repeat({batch_size});
  std::vector<std::int64_t> response_index, response_token_ids;
  auto* input_ids = batch.input_ids.mutable_data_ptr<std::int64_t>();
  auto* next_token_ids = batch.next_token_ids.mutable_data_ptr<std::int64_t>();
  for (std::int64_t b = 0; b < batch_size; ++b) {
    const Invocation& invocation = *invocations[static_cast<std::size_t>(b)];
    const auto prompt_size = static_cast<std::int64_t>(invocation.prompt_token_ids.size());
    std::int64_t* row =
        std::copy(invocation.prompt_token_ids.begin(), invocation.prompt_token_ids.end(), input_ids + b * length);
    row = std::copy(invocation.response_token_ids.begin(), invocation.response_token_ids.end(), row);
    std::copy(input_ids + b * length + 1, row, next_token_ids + b * length);
    for (std::size_t j = 0; j < invocation.response_token_ids.size(); ++j) {
      response_index.push_back(b * length + prompt_size - 1 + static_cast<std::int64_t>(j));
      response_token_ids.push_back(invocation.response_token_ids[j]);
    }
  }
  batch.response_index = at::tensor(response_index, at::kLong);
  batch.response_token_ids = at::tensor(response_token_ids, at::kLong);
  return batch;
}

}  // namespace

std::vector<PaddedBatch> pad(std::span<const Invocation* const> invocations, std::int32_t length,
                             std::int32_t max_tokens) {
  const auto batch_size = static_cast<std::size_t>(std::max(1, max_tokens / length));
  std::vector<PaddedBatch> batches;
  for (std::size_t first = 0; first < invocations.size(); first += batch_size) {
    batches.push_back(pad_one(invocations.subspan(first, std::min(batch_size, invocations.size() - first)), length));
  }
  return batches;
}

at::Tensor padded_hidden(const Transformer& model, const PaddedBatch& batch) {
  const ModelConfig& config = model.config();
  const AttentionShape shape{config.num_attention_heads, config.num_key_value_heads, config.head_dim};
  const std::int64_t batch_size = batch.input_ids.size(0), length = batch.input_ids.size(1);
  const double scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
  const auto by_head = [&](const at::Tensor& x_THD) {
    return x_THD.view({batch_size, length, x_THD.size(1), x_THD.size(2)}).transpose(1, 2);
  };
  const at::Tensor rope = model.rope_rows(batch.position_ids);
  at::Tensor x_TD = at::embedding(model.embedding(), batch.input_ids.view({-1}));
  for (const DecoderLayer& layer : model.layers()) {
    const auto [q, k, v] =
        norm_qkv_rope(x_TD, {layer.input_norm, layer.qkv_weight, layer.qkv_bias, layer.q_norm, layer.k_norm}, rope,
                      config.rms_norm_eps, shape);
    const at::Tensor attended_BHLD =
        at::scaled_dot_product_attention(by_head(q), by_head(k), by_head(v), std::nullopt, 0.0, /*is_causal=*/true,
                                         scale, /*enable_gqa=*/shape.num_heads != shape.num_kv_heads);
    const at::Tensor attended_TD = attended_BHLD.transpose(1, 2).reshape({batch_size * length, -1});
    x_TD = at::addmm(x_TD, attended_TD, layer.o_weight.t());
    x_TD = norm_mlp_residual(x_TD, layer.post_norm, layer.gate_up_weight, layer.down_weight, config.rms_norm_eps);
  }
  return rms_norm(x_TD, model.final_norm(), config.rms_norm_eps);
}

}  // namespace memopd

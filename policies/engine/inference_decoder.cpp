// Suffixes: N rows of the call, D hidden_size, Q = (H + 2 Hkv) Dh, A = H Dh, G = 2 F, F intermediate_size, V scored ids.
#include "policies/engine/inference_decoder.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "policies/model/attention_kernels.hpp"
#include "policies/model/packed_attention.hpp"
#include "policies/model/packed_tensors.hpp"
#include "policies/model/row_kernels.hpp"
#include "policies/model/row_products.hpp"

namespace memopd {

namespace {

KvCacheShape cache_shape(const ModelConfig& config, const InferenceLimits& limits) {
  return {config.num_hidden_layers, limits.num_slots, config.num_key_value_heads, config.head_dim,
          limits.max_context_tokens};
}

void normalise(const at::Tensor& x_ND, const at::Tensor& weight_D, double eps, const at::Tensor& normed_ND) {
  rms_norm_rows<float>(x_ND.data_ptr<float>(), weight_D.data_ptr<float>(), static_cast<float>(eps), x_ND.size(0),
                       x_ND.size(1), normed_ND.data_ptr<float>(), nullptr);
}

/// out = rows weight^T, plus the bias when there is one.
void project(const at::Tensor& out_NQ, const at::Tensor& rows_ND, const at::Tensor& weight_QD, const at::Tensor& bias_Q,
             bool is_row_exact) {
  at::Tensor out = out_NQ;
  if (bias_Q.defined() && !is_row_exact) {
    at::addmm_out(out, bias_Q, rows_ND, weight_QD.t());
    return;
  }
  multiply_rows_out(out, rows_ND, weight_QD, is_row_exact);
  if (bias_Q.defined()) out.add_(bias_Q);
}

/// Norms every head of q and k in place, as norm_qkv_rope does; a model without such norms is left alone.
void normalise_heads(const at::Tensor& qkv_NQ, const DecoderLayer& layer, const ModelConfig& config) {
  if (!layer.q_norm.defined()) return;
  auto* q = qkv_NQ.data_ptr<float>();
  auto* k = q + std::int64_t{config.num_attention_heads} * config.head_dim;
  const auto eps = static_cast<float>(config.rms_norm_eps);
  const std::int64_t rows = qkv_NQ.size(0), stride = qkv_NQ.size(1);
  rms_norm_heads<float>(q, stride, layer.q_norm.data_ptr<float>(), eps, rows, config.num_attention_heads,
                        config.head_dim, q, nullptr);
  rms_norm_heads<float>(k, stride, layer.k_norm.data_ptr<float>(), eps, rows, config.num_key_value_heads,
                        config.head_dim, k, nullptr);
}

std::int64_t scores_stride(const InferenceLimits& limits) {
  constexpr std::int64_t kLanes = detail::kLanes<float>;
  return (limits.max_context_tokens + kLanes - 1) / kLanes * kLanes;
}

/// Every prompt sees itself, causally; blocks as packed attention wants them.
PackedTensors prompts_only(std::span<const PrefillRow> prompts) {
  auto plan = std::make_shared<AttentionPlan>();
  for (const PrefillRow& prompt : prompts) {
    const std::int32_t begin = plan->num_tokens;
    const auto length = static_cast<std::int32_t>(prompt.token_ids.size());
    for (std::int32_t at = 0; at < length; at += AttentionPlan::kMaxBlockRows) {
      const std::int32_t end = std::min(length, at + AttentionPlan::kMaxBlockRows);
      plan->blocks.push_back({begin + at, begin + end, begin, end});
    }
    plan->num_tokens += length;
  }
  plan->kv_index.resize(static_cast<std::size_t>(plan->num_tokens));
  for (std::int32_t i = 0; i < plan->num_tokens; ++i) plan->kv_index[static_cast<std::size_t>(i)] = i;
  return {.input_ids = {}, .position_ids = {}, .response_index = {}, .response_token_ids = {}, .plan = std::move(plan)};
}

}  // namespace

InferenceDecoder::InferenceDecoder(const Transformer& like, const InferenceLimits& limits)
    : config_(like.config()), limits_(limits), cache_(cache_shape(config_, limits)) {
  const c10::InferenceMode inference;
  const std::int64_t rows = std::max(limits.max_rows, limits.max_sequences);
  const std::int64_t attended = std::int64_t{config_.num_attention_heads} * config_.head_dim;
  const std::int64_t qkv = attended + 2 * std::int64_t{config_.num_key_value_heads} * config_.head_dim;
  const std::int64_t f = config_.intermediate_size;
  const auto floats = [](std::int64_t height, std::int64_t width) { return at::empty({height, width}, at::kFloat); };
  buffers_ = {.ids = at::empty({rows}, at::kLong),
              .positions = at::empty({rows}, at::kLong),
              .x = floats(rows, config_.hidden_size),
              .normed = floats(rows, config_.hidden_size),
              .qkv = floats(rows, qkv),
              .attended = floats(rows, attended),
              .gate_up = floats(rows, 2 * f),
              .active = floats(rows, f),
              .rope = floats(rows, config_.head_dim),
              .product = floats(like.is_row_exact() ? rows : 0, config_.hidden_size),
              .logits = floats(limits.max_sequences, limits.scored_vocab),
              .scores = floats(at::get_num_threads(), scores_stride(limits))};
  slots_.resize(static_cast<std::size_t>(rows));
  rope_table_ = like.rope_rows(at::arange(limits.max_context_tokens, at::kLong));
}

void InferenceDecoder::set_row(std::int64_t row, std::int32_t slot, std::int32_t id, std::int32_t position) {
  slots_[static_cast<std::size_t>(row)] = slot;
  buffers_.ids.data_ptr<std::int64_t>()[row] = id;
  buffers_.positions.data_ptr<std::int64_t>()[row] = position;
}

CachedToken InferenceDecoder::token_of(std::int64_t row) const {
  return {static_cast<std::int32_t>(buffers_.ids.const_data_ptr<std::int64_t>()[row]),
          static_cast<std::int32_t>(buffers_.positions.const_data_ptr<std::int64_t>()[row])};
}

void InferenceDecoder::add_product(const at::Tensor& x_ND, const at::Tensor& rows_NK, const at::Tensor& weight_DK,
                                   bool is_row_exact) {
  if (!is_row_exact) {
    x_ND.addmm_(rows_NK, weight_DK.t());
    return;
  }
  const at::Tensor product_ND = buffers_.product.narrow(0, 0, x_ND.size(0));
  multiply_rows_out(product_ND, rows_NK, weight_DK, true);
  x_ND.add_(product_ND);
}

std::span<const float> InferenceDecoder::forward(const Transformer& model, std::span<const Run> runs,
                                                 const at::Tensor& wanted_rows) {
  const bool is_exact = model.is_row_exact();
  const auto rows = [](const at::Tensor& buffer, std::int64_t count) { return buffer.narrow(0, 0, count); };
  std::int64_t n = runs.back().end;
  at::Tensor x_ND = rows(buffers_.x, n);
  at::Tensor rope = rows(buffers_.rope, n);
  at::index_select_out(x_ND, model.embedding(), 0, rows(buffers_.ids, n));
  at::index_select_out(rope, rope_table_, 0, rows(buffers_.positions, n));
  for (std::size_t i = 0; i < model.layers().size(); ++i) {
    const DecoderLayer& layer = model.layers()[i];
    normalise(x_ND, layer.input_norm, config_.rms_norm_eps, rows(buffers_.normed, n));
    const at::Tensor qkv_NQ = rows(buffers_.qkv, n);
    project(qkv_NQ, rows(buffers_.normed, n), layer.qkv_weight, layer.qkv_bias, is_exact);
    normalise_heads(qkv_NQ, layer, config_);
    rotate_rows<float>(qkv_NQ.data_ptr<float>(), qkv_NQ.size(1), rope.data_ptr<float>(), n,
                       config_.num_attention_heads + config_.num_key_value_heads, config_.head_dim, 1.0f);
    at::Tensor attended_NA = rows(buffers_.attended, n);
    attend(static_cast<std::int64_t>(i), runs, qkv_NQ, attended_NA);
    if (wanted_rows.defined() && i + 1 == model.layers().size()) {
      x_ND = x_ND.index_select(0, wanted_rows);
      attended_NA = attended_NA.index_select(0, wanted_rows);
      n = wanted_rows.size(0);
      if (n == 0) return {};
    }
    add_product(x_ND, attended_NA, layer.o_weight, is_exact);
    normalise(x_ND, layer.post_norm, config_.rms_norm_eps, rows(buffers_.normed, n));
    const at::Tensor gate_up_NG = rows(buffers_.gate_up, n);
    multiply_rows_out(gate_up_NG, rows(buffers_.normed, n), layer.gate_up_weight, is_exact);
    const at::Tensor active_NF = rows(buffers_.active, n);
    swiglu_rows<float>(gate_up_NG.data_ptr<float>(), n, config_.intermediate_size, active_NF.data_ptr<float>());
    add_product(x_ND, active_NF, layer.down_weight, is_exact);
  }
  normalise(x_ND, model.final_norm(), config_.rms_norm_eps, rows(buffers_.normed, n));
  const at::Tensor logits_NV = rows(buffers_.logits, n);
  multiply_rows_out(logits_NV, rows(buffers_.normed, n), model.head_weight().narrow(0, 0, limits_.scored_vocab),
                    is_exact);
  return {logits_NV.data_ptr<float>(), static_cast<std::size_t>(logits_NV.numel())};
}

void InferenceDecoder::attend(std::int64_t layer, std::span<const Run> runs, const at::Tensor& qkv_NQ,
                              const at::Tensor& attended_NA) {
  const std::int64_t num_heads = config_.num_attention_heads;
  const std::int64_t num_kv_heads = config_.num_key_value_heads;
  const std::int64_t dh = config_.head_dim;
  const double scale = 1.0 / std::sqrt(static_cast<double>(dh));
  const auto* qkv = qkv_NQ.const_data_ptr<float>();
  at::parallel_for(0, qkv_NQ.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const float* key = qkv + n * qkv_NQ.size(1) + num_heads * dh;
      const CachedToken token = token_of(n);
      cache_.store(layer, slots_[static_cast<std::size_t>(n)], token.position, token, key, key + num_kv_heads * dh);
    }
  });
  for (const Run& run : runs) {
    if (!run.pack) {
      attend_slots(layer, run, qkv_NQ, attended_NA);
      continue;
    }
    const std::int64_t count = run.end - run.begin;
    const at::Tensor heads = qkv_NQ.narrow(0, run.begin, count).view({count, num_heads + 2 * num_kv_heads, dh});
    const at::Tensor attended =
        packed_attention(heads.narrow(1, 0, num_heads), heads.narrow(1, num_heads, num_kv_heads),
                         heads.narrow(1, num_heads + num_kv_heads, num_kv_heads), *run.pack, scale);
    attended_NA.narrow(0, run.begin, count).copy_(attended.view({count, -1}));
  }
}

void InferenceDecoder::attend_slots(std::int64_t layer, const Run& run, const at::Tensor& qkv_NQ,
                                    const at::Tensor& attended_NA) {
  const std::int64_t dh = config_.head_dim;
  const std::int64_t num_heads = config_.num_attention_heads;
  const std::int64_t group = num_heads / config_.num_key_value_heads;
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dh)));
  const auto& kernels = detail::attention_kernels<float>(/*portable=*/false);
  auto* qkv = qkv_NQ.data_ptr<float>();
  auto* attended = attended_NA.data_ptr<float>();
  if (buffers_.scores.size(0) < at::get_num_threads()) {
    buffers_.scores = at::empty({at::get_num_threads(), scores_stride(limits_)}, at::kFloat);
  }
  auto* scores = buffers_.scores.data_ptr<float>();
  at::parallel_for(run.begin, run.end, 1, [&](std::int64_t begin, std::int64_t end) {
    float* own_scores = scores + at::get_thread_num() * scores_stride(limits_);
    for (std::int64_t n = begin; n < end; ++n) {
      const std::int32_t slot = slots_[static_cast<std::size_t>(n)];
      float* q = qkv + n * qkv_NQ.size(1);
      std::transform(q, q + num_heads * dh, q, [scale](float x) { return scale * x; });
      for (std::int64_t head = 0; head < num_heads; ++head) {
        kernels.row({q + head * dh, cache_.keys(layer, slot, head / group), cache_.key_stride(),
                     cache_.values(layer, slot, head / group), token_of(n).position + 1, dh, own_scores,
                     attended + (n * num_heads + head) * dh});
      }
    }
  });
}

std::span<const float> InferenceDecoder::prefill(const Transformer& model, std::span<const PrefillRow> prompts) {
  const c10::InferenceMode inference;
  std::vector<Run> runs;
  std::vector<std::int64_t> wanted;
  std::int64_t row = 0;
  for (auto next = prompts.begin(); next != prompts.end();) {
    const bool is_begin = next->position == 0;
    const auto end = std::find_if(next, prompts.end(), [&](const auto& p) { return (p.position == 0) != is_begin; });
    Run run{.begin = row};
    if (is_begin) run.pack = prompts_only({next, end});
    for (; next != end; ++next) {
      std::int32_t position = next->position;
      for (const std::int32_t id : next->token_ids) set_row(row++, next->slot, id, position++);
      if (next->is_last) wanted.push_back(row - 1);
    }
    run.end = row;
    runs.push_back(std::move(run));
  }
  const at::Tensor wanted_rows = at::empty({static_cast<std::int64_t>(wanted.size())}, at::kLong);
  std::copy(wanted.begin(), wanted.end(), wanted_rows.data_ptr<std::int64_t>());
  return forward(model, runs, wanted_rows);
}

std::span<const float> InferenceDecoder::decode(const Transformer& model, std::span<const DecodeRow> rows) {
  const c10::InferenceMode inference;
  std::int64_t n = 0;
  for (const DecodeRow& row : rows) set_row(n++, row.slot, row.token_id, row.position);
  const Run run{.begin = 0, .end = n};
  return forward(model, {&run, 1}, {});
}

}  // namespace memopd

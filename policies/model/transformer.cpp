#include "policies/model/transformer.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "policies/model/decoder_functions.hpp"
#include "policies/model/packed_attention.hpp"
#include "policies/model/packed_tensors.hpp"
#include "policies/model/row_products.hpp"
#include "runtime/base/check.hpp"

namespace memopd {

namespace {

std::string layer_name(std::size_t layer, const char* part) {
  return "model.layers." + std::to_string(layer) + "." + part;
}

template <class T>
void fill_rope_rows(const ModelConfig& config, const at::Tensor& position_ids, T* rows) {
  const std::int64_t half = config.head_dim / 2;
  const auto* positions = position_ids.data_ptr<std::int64_t>();
  const std::vector<double> frequencies = rope_frequencies(config);
  for (std::int64_t t = 0; t < position_ids.size(0); ++t) {
    T* row = rows + t * config.head_dim;
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(positions[t]) * frequencies[static_cast<std::size_t>(i)];
      row[i] = static_cast<T>(std::cos(angle));
      row[half + i] = static_cast<T>(std::sin(angle));
    }
  }
}

/// Where the rows of a fused tensor go: Hugging Face names with the number of rows of each.
using Parts = std::vector<std::pair<std::string, std::int64_t>>;

Parts split_parts(const ModelConfig& config, const std::string& name) {
  const auto ends_with = [&name](std::string_view suffix) { return name.ends_with(suffix); };
  const auto stem = [&name](std::string_view suffix) { return name.substr(0, name.size() - suffix.size()); };
  const std::int64_t q = std::int64_t{config.num_attention_heads} * config.head_dim;
  const std::int64_t kv = std::int64_t{config.num_key_value_heads} * config.head_dim;
  for (const std::string kind : {"weight", "bias"}) {
    if (const std::string suffix = "qkv_proj." + kind; ends_with(suffix)) {
      const std::string base = stem(suffix);
      return {{base + "q_proj." + kind, q}, {base + "k_proj." + kind, kv}, {base + "v_proj." + kind, kv}};
    }
  }
  if (ends_with("gate_up_proj.weight")) {
    const std::string base = stem("gate_up_proj.weight");
    return {{base + "gate_proj.weight", config.intermediate_size}, {base + "up_proj.weight", config.intermediate_size}};
  }
  return {};
}

}  // namespace

Transformer::Transformer(ModelConfig config, at::ScalarType dtype) : config_(std::move(config)), dtype_(dtype) {
  MEMOPD_CHECK(dtype == at::kFloat || dtype == at::kDouble, "a transformer computes in float32 or float64");
  const std::int64_t d = config_.hidden_size;
  const std::int64_t f = config_.intermediate_size;
  const std::int64_t attended = std::int64_t{config_.num_attention_heads} * config_.head_dim;
  const std::int64_t qkv = attended + 2 * std::int64_t{config_.num_key_value_heads} * config_.head_dim;
  const auto add = [this](std::string name, at::Tensor tensor) {
    parameters_.push_back({std::move(name), tensor});
    return tensor;
  };
  embedding_ = add("model.embed_tokens.weight", at::zeros({config_.vocab_size, d}, dtype));
  for (std::size_t i = 0; i < static_cast<std::size_t>(config_.num_hidden_layers); ++i) {
    DecoderLayer layer;
    layer.input_norm = add(layer_name(i, "input_layernorm.weight"), at::ones({d}, dtype));
    layer.qkv_weight = add(layer_name(i, "self_attn.qkv_proj.weight"), at::zeros({qkv, d}, dtype));
    if (config_.attention_bias) layer.qkv_bias = add(layer_name(i, "self_attn.qkv_proj.bias"), at::zeros({qkv}, dtype));
    if (config_.has_qk_norm()) {
      layer.q_norm = add(layer_name(i, "self_attn.q_norm.weight"), at::ones({config_.head_dim}, dtype));
      layer.k_norm = add(layer_name(i, "self_attn.k_norm.weight"), at::ones({config_.head_dim}, dtype));
    }
    layer.o_weight = add(layer_name(i, "self_attn.o_proj.weight"), at::zeros({d, attended}, dtype));
    layer.post_norm = add(layer_name(i, "post_attention_layernorm.weight"), at::ones({d}, dtype));
    layer.gate_up_weight = add(layer_name(i, "mlp.gate_up_proj.weight"), at::zeros({2 * f, d}, dtype));
    layer.down_weight = add(layer_name(i, "mlp.down_proj.weight"), at::zeros({d, f}, dtype));
    layers_.push_back(std::move(layer));
  }
  final_norm_ = add("model.norm.weight", at::ones({d}, dtype));
  if (!config_.tie_word_embeddings) head_ = add("lm_head.weight", at::zeros({config_.vocab_size, d}, dtype));
}

Transformer Transformer::clone() const {
  const at::NoGradGuard no_grad;
  Transformer copy(config_, dtype_);
  copy.is_row_exact_ = is_row_exact_;
  for (std::size_t i = 0; i < parameters_.size(); ++i) copy.parameters_[i].tensor.copy_(parameters_[i].tensor);
  return copy;
}

at::Tensor Transformer::hidden(const PackedTensors& pack) const {
  const AttentionShape shape{config_.num_attention_heads, config_.num_key_value_heads, config_.head_dim};
  const double scale = 1.0 / std::sqrt(static_cast<double>(config_.head_dim));
  const at::Tensor rope = rope_rows(pack.position_ids);
  at::Tensor x_TD = at::embedding(embedding_, pack.input_ids);
  for (const DecoderLayer& layer : layers_) {
    const QkvParameters parameters{layer.input_norm, layer.qkv_weight, layer.qkv_bias, layer.q_norm, layer.k_norm};
    const auto [q, k, v] = norm_qkv_rope(x_TD, parameters, rope, config_.rms_norm_eps, shape, is_row_exact_);
    const at::Tensor attended = packed_attention(q, k, v, pack, scale).view({x_TD.size(0), -1});
    x_TD = add_product(x_TD, attended, layer.o_weight, is_row_exact_);
    x_TD = norm_mlp_residual(x_TD, layer.post_norm, layer.gate_up_weight, layer.down_weight, config_.rms_norm_eps,
                             is_row_exact_);
  }
  return rms_norm(x_TD, final_norm_, config_.rms_norm_eps);
}

const at::Tensor& Transformer::head_weight() const { return head_.defined() ? head_ : embedding_; }

at::Tensor Transformer::logits(const at::Tensor& hidden_rows) const {
  return multiply_rows(hidden_rows, head_weight(), is_row_exact_);
}

void Transformer::set_requires_grad(bool is_required) {
  for (NamedTensor& parameter : parameters_) parameter.tensor.set_requires_grad(is_required);
}

std::vector<NamedTensor> Transformer::named_slices(const std::vector<at::Tensor>& like_parameters) const {
  MEMOPD_CHECK(like_parameters.size() == parameters_.size(), "one tensor per parameter");
  std::vector<NamedTensor> slices;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& tensor = like_parameters[i];
    if (!tensor.defined()) continue;
    const Parts parts = split_parts(config_, parameters_[i].name);
    if (parts.empty()) slices.push_back({parameters_[i].name, tensor});
    std::int64_t row = 0;
    for (const auto& [name, num_rows] : parts) {
      slices.push_back({name, tensor.narrow(0, row, num_rows)});
      row += num_rows;
    }
  }
  std::sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return slices;
}

std::vector<NamedTensor> Transformer::named_slices() const {
  std::vector<at::Tensor> detached;
  for (const NamedTensor& parameter : parameters_) detached.push_back(parameter.tensor.detach());
  return named_slices(detached);
}

at::Tensor Transformer::rope_rows(const at::Tensor& position_ids) const {
  at::Tensor rows = at::empty({position_ids.size(0), config_.head_dim}, dtype_);
  if (dtype_ == at::kDouble) {
    fill_rope_rows(config_, position_ids, rows.data_ptr<double>());
  } else {
    fill_rope_rows(config_, position_ids, rows.data_ptr<float>());
  }
  return rows;
}

}  // namespace memopd

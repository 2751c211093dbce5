#include "policies/model/model_config.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "policies/model/model_family.hpp"
#include "runtime/config/schema.hpp"

namespace memopd {

namespace detail {

const ModelFamily* find_model_family(const std::string& name) {
  const auto* const found = std::find_if(kModelFamilies.begin(), kModelFamilies.end(),
                                         [&name](const ModelFamily& family) { return family.name == name; });
  return found == kModelFamilies.end() ? nullptr : found;
}

std::string model_family_names() {
  std::string names;
  for (const ModelFamily& family : kModelFamilies) {
    names += (names.empty() ? "\"" : ", \"") + std::string(family.name) + "\"";
  }
  return names;
}

}  // namespace detail

namespace {

using detail::Problems;

/// Ten times the deepest decoder there is: a wrong number must not become a list of tensor names without end.
constexpr std::int32_t kMaxLayers = 2000;

void check_rope_scaling(const Llama3RopeScaling& scaling, Problems& problems) {
  const auto is_finite = std::isfinite(scaling.factor) && std::isfinite(scaling.high_freq_factor);
  problems.require(is_finite && scaling.factor >= 1, "rope scaling factor is not at least 1");
  problems.require(scaling.low_freq_factor > 0 && scaling.high_freq_factor > scaling.low_freq_factor,
                   "rope scaling: low_freq_factor is not between 0 and high_freq_factor");
  problems.require(scaling.original_max_position_embeddings >= 1,
                   "rope scaling: original_max_position_embeddings is below 1");
}

std::string layer_prefix(std::int32_t layer) { return "model.layers." + std::to_string(layer) + "."; }

}  // namespace

bool ModelConfig::has_qk_norm() const {
  const detail::ModelFamily* family = detail::find_model_family(architecture);
  return family != nullptr && family->has_qk_norm;
}

Expected<void> validate(const ModelConfig& config) {
  Problems problems;
  const auto at_least_one = [&](const char* name, std::int32_t value) {
    problems.require(value >= 1, std::string(name) + " is " + std::to_string(value) + ", below 1");
  };
  at_least_one("vocab_size", config.vocab_size);
  at_least_one("hidden_size", config.hidden_size);
  at_least_one("intermediate_size", config.intermediate_size);
  at_least_one("num_hidden_layers", config.num_hidden_layers);
  problems.require(
      config.num_hidden_layers <= kMaxLayers,
      "num_hidden_layers is " + std::to_string(config.num_hidden_layers) + ", above " + std::to_string(kMaxLayers));
  at_least_one("num_attention_heads", config.num_attention_heads);
  at_least_one("num_key_value_heads", config.num_key_value_heads);
  at_least_one("max_position_embeddings", config.max_position_embeddings);
  problems.require(config.num_key_value_heads < 1 || config.num_attention_heads % config.num_key_value_heads == 0,
                   "num_key_value_heads " + std::to_string(config.num_key_value_heads) +
                       " does not divide num_attention_heads " + std::to_string(config.num_attention_heads));
  problems.require(config.head_dim >= 2 && config.head_dim % 2 == 0,
                   "head_dim is " + std::to_string(config.head_dim) + ", not an even number of at least 2");
  problems.require(std::isfinite(config.rms_norm_eps) && config.rms_norm_eps > 0, "rms_norm_eps is not above 0");
  problems.require(std::isfinite(config.rope_theta) && config.rope_theta > 0, "rope_theta is not above 0");
  if (config.rope_scaling) check_rope_scaling(*config.rope_scaling, problems);
  const detail::ModelFamily* family = detail::find_model_family(config.architecture);
  problems.require(family != nullptr,
                   "architecture is \"" + config.architecture + "\", supported are " + detail::model_family_names());
  // Hugging Face's classes leave no choice here, and a checkpoint of the other kind would load with missing tensors.
  problems.require(family == nullptr || family->has_bias == config.attention_bias,
                   config.attention_bias
                       ? "attention_bias is true, but " + config.architecture + " has none on q, k and v alone"
                       : "attention_bias is false, but " + config.architecture + " always has it");
  for (const std::int32_t id : config.eos_token_ids) {
    problems.require(id >= 0 && id < config.vocab_size, "eos id " + std::to_string(id) + " outside the vocabulary");
  }
  if (!problems.empty()) return unexpected(ErrorCode::invalid_argument, "model: " + problems.text());
  return {};
}

Expected<ModelConfig> model_config_from_shape(const ModelShapeConfig& shape, std::int32_t vocab_size,
                                              std::vector<std::int32_t> eos_token_ids) {
  ModelConfig config{.architecture = shape.architecture,
                     .vocab_size = vocab_size,
                     .hidden_size = shape.hidden_size,
                     .intermediate_size = shape.intermediate_size,
                     .num_hidden_layers = shape.num_hidden_layers,
                     .num_attention_heads = shape.num_attention_heads,
                     .num_key_value_heads = shape.num_key_value_heads,
                     .head_dim = shape.hidden_size / std::max(shape.num_attention_heads, 1),
                     .rms_norm_eps = shape.rms_norm_eps,
                     .rope_theta = shape.rope_theta,
                     .attention_bias = shape.attention_bias,
                     .tie_word_embeddings = shape.tie_word_embeddings,
                     .max_position_embeddings = shape.max_position_embeddings,
                     .eos_token_ids = std::move(eos_token_ids)};
  MEMOPD_RETURN_IF_ERROR(validate(config));
  if (config.hidden_size % config.num_attention_heads != 0) {
    return unexpected(ErrorCode::invalid_argument,
                      "model: num_attention_heads " + std::to_string(config.num_attention_heads) +
                          " does not divide hidden_size " + std::to_string(config.hidden_size));
  }
  return config;
}

std::vector<double> rope_frequencies(const ModelConfig& config) {
  const std::int32_t half = config.head_dim / 2;
  std::vector<double> frequencies(static_cast<std::size_t>(half));
  for (std::int32_t i = 0; i < half; ++i) {
    double& frequency = frequencies[static_cast<std::size_t>(i)];
    frequency = std::pow(config.rope_theta, -static_cast<double>(i) / half);
    if (!config.rope_scaling) continue;
    const Llama3RopeScaling& scaling = *config.rope_scaling;
    const double turns = scaling.original_max_position_embeddings * frequency / (2 * std::numbers::pi);
    const double kept =
        std::clamp((turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor), 0.0, 1.0);
    frequency *= kept + (1 - kept) / scaling.factor;
  }
  return frequencies;
}

std::vector<TensorSpec> tensor_specs(const ModelConfig& config) {
  const std::int64_t d = config.hidden_size;
  const std::int64_t f = config.intermediate_size;
  const std::int64_t q = std::int64_t{config.num_attention_heads} * config.head_dim;
  const std::int64_t kv = std::int64_t{config.num_key_value_heads} * config.head_dim;
  std::vector<TensorSpec> specs = {{"model.embed_tokens.weight", {config.vocab_size, d}}, {"model.norm.weight", {d}}};
  if (!config.tie_word_embeddings) specs.push_back({"lm_head.weight", {config.vocab_size, d}});
  for (std::int32_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string prefix = layer_prefix(layer);
    specs.push_back({prefix + "input_layernorm.weight", {d}});
    specs.push_back({prefix + "post_attention_layernorm.weight", {d}});
    specs.push_back({prefix + "self_attn.q_proj.weight", {q, d}});
    specs.push_back({prefix + "self_attn.k_proj.weight", {kv, d}});
    specs.push_back({prefix + "self_attn.v_proj.weight", {kv, d}});
    specs.push_back({prefix + "self_attn.o_proj.weight", {d, q}});
    if (config.attention_bias) {
      specs.push_back({prefix + "self_attn.q_proj.bias", {q}});
      specs.push_back({prefix + "self_attn.k_proj.bias", {kv}});
      specs.push_back({prefix + "self_attn.v_proj.bias", {kv}});
    }
    if (config.has_qk_norm()) {
      specs.push_back({prefix + "self_attn.q_norm.weight", {config.head_dim}});
      specs.push_back({prefix + "self_attn.k_norm.weight", {config.head_dim}});
    }
    specs.push_back({prefix + "mlp.gate_proj.weight", {f, d}});
    specs.push_back({prefix + "mlp.up_proj.weight", {f, d}});
    specs.push_back({prefix + "mlp.down_proj.weight", {d, f}});
  }
  std::sort(specs.begin(), specs.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return specs;
}

}  // namespace memopd

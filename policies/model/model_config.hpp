// Shape of a decoder of the Qwen2, Qwen3 or Llama family, as a Hugging Face config.json states it.
//
// Supported: pre-RMSNorm, RoPE (half-split; unscaled or with Llama 3's fixed scaling), grouped-query attention, bias on
// q, k, v (Qwen2), RMSNorm of every q and k head before RoPE (Qwen3), SwiGLU, tied or untied head. Anything else that
// changes the mathematics (RoPE that depends on the length, an active sliding window, other activations or
// architectures) is refused by name: a silently ignored key gives wrong numbers, not an error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/data/tensor.hpp"

namespace memopd {

struct ModelShapeConfig;

/// rope_type "llama3": frequencies whose wave is longer than the original context, low_freq_factor times over, turn
/// `factor` times slower; those above high_freq_factor stay; in between they are blended. The same at every length.
struct Llama3RopeScaling {
  double factor = 8.0;                                ///< >= 1
  double low_freq_factor = 1.0;                       ///< > 0
  double high_freq_factor = 4.0;                      ///< > low_freq_factor
  std::int32_t original_max_position_embeddings = 0;  ///< >= 1

  friend bool operator==(const Llama3RopeScaling&, const Llama3RopeScaling&) = default;
};

struct ModelConfig {
  std::string architecture = "qwen2";    ///< "qwen2" | "qwen3" | "llama"
  std::int32_t vocab_size = 0;           ///< V, rows of the embedding; >= 1
  std::int32_t hidden_size = 0;          ///< D; >= 1
  std::int32_t intermediate_size = 0;    ///< F; >= 1
  std::int32_t num_hidden_layers = 0;    ///< L; >= 1
  std::int32_t num_attention_heads = 0;  ///< H; >= 1
  std::int32_t num_key_value_heads = 0;  ///< Hkv; divides H
  std::int32_t head_dim = 0;             ///< Dh; even
  double rms_norm_eps = 1e-6;            ///< > 0
  double rope_theta = 10000.0;           ///< > 0
  std::optional<Llama3RopeScaling> rope_scaling{};
  bool attention_bias = true;                ///< bias on q, k and v
  bool tie_word_embeddings = true;           ///< the head is the embedding: one tensor in memory and on disk
  std::int32_t max_position_embeddings = 0;  ///< tokens the model was made for; >= 1
  std::vector<std::int32_t> eos_token_ids;   ///< any of them ends a response; may be empty

  /// RMSNorm of every q and k head before RoPE.
  [[nodiscard]] bool has_qk_norm() const;

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// @error invalid_argument  every field outside its range, in one message
Expected<void> validate(const ModelConfig& config);

/// The shape of a decoder made from nothing, with `vocab_size` rows.
/// @error invalid_argument  every field outside its range
Expected<ModelConfig> model_config_from_shape(const ModelShapeConfig& shape, std::int32_t vocab_size,
                                              std::vector<std::int32_t> eos_token_ids);

/// Reads the text of a config.json; `source` names it in messages. Unknown keys that change no number are ignored.
/// Every problem is in the one message, of both kinds.
/// @error unsupported   another architecture, RoPE or activation, an active sliding window, ..; named
/// @error parse_error   not JSON, a missing key, a value of the wrong type or range
Expected<ModelConfig> parse_model_config(std::string_view json_text, std::string_view source);

/// Reads `folder`/config.json and, if there is one, the eos ids of `folder`/generation_config.json.
/// @error not_found     no config.json
Expected<ModelConfig> load_model_config(const std::filesystem::path& folder);

/// config.json that Hugging Face transformers loads. @param dtype  of the weights: float32, float64, bfloat16, float16
std::string to_json(const ModelConfig& config, DType dtype = DType::float32);

/// [Dh / 2]: radians per position of every pair (i, i + Dh/2), scaling included.
/// Source: Su et al. (2021); Llama3RopeScaling as in Hugging Face transformers.
std::vector<double> rope_frequencies(const ModelConfig& config);

/// Name and shape of every tensor of a checkpoint, sorted by name; a tied head is not among them.
struct TensorSpec {
  std::string name;
  std::vector<std::int64_t> shape;
};
std::vector<TensorSpec> tensor_specs(const ModelConfig& config);

}  // namespace memopd

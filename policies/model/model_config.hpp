// Shape of a decoder of the Qwen2 / Llama family, as a Hugging Face config.json states it.
//
// Supported: pre-RMSNorm, RoPE (half-split, unscaled), grouped-query attention, SwiGLU, optional bias on q, k, v, tied or
// untied head. Anything else that changes the mathematics (rope_scaling, an active sliding window, other activations or
// architectures) is refused by name: a silently ignored key gives wrong numbers, not an error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

struct ModelShapeConfig;

struct ModelConfig {
  std::string architecture = "qwen2";        ///< "qwen2" | "llama"
  std::int32_t vocab_size = 0;               ///< V, rows of the embedding; >= 1
  std::int32_t hidden_size = 0;              ///< D; >= 1
  std::int32_t intermediate_size = 0;        ///< F; >= 1
  std::int32_t num_hidden_layers = 0;        ///< L; >= 1
  std::int32_t num_attention_heads = 0;      ///< H; >= 1
  std::int32_t num_key_value_heads = 0;      ///< Hkv; divides H
  std::int32_t head_dim = 0;                 ///< Dh; even
  double rms_norm_eps = 1e-6;                ///< > 0
  double rope_theta = 10000.0;               ///< > 0
  bool attention_bias = true;                ///< bias on q, k and v
  bool tie_word_embeddings = true;           ///< the head is the embedding: one tensor in memory and on disk
  std::int32_t max_position_embeddings = 0;  ///< tokens the model was made for; >= 1
  std::vector<std::int32_t> eos_token_ids;   ///< any of them ends a response; may be empty

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// @error invalid_argument  every field outside its range, in one message
Expected<void> validate(const ModelConfig& config);

/// The shape of a decoder made from nothing, with `vocab_size` rows.
/// @error invalid_argument  every field outside its range
Expected<ModelConfig> model_config_from_shape(const ModelShapeConfig& shape, std::int32_t vocab_size,
                                              std::vector<std::int32_t> eos_token_ids);

/// Reads the text of a config.json; `source` names it in messages. Unknown keys that change no number are ignored.
/// @error parse_error   not JSON, a missing key, a value of the wrong type or range; all problems at once
/// @error unsupported   rope_scaling, an active sliding window, another activation or architecture; named
Expected<ModelConfig> parse_model_config(std::string_view json_text, std::string_view source);

/// Reads `folder`/config.json and, if there is one, the eos ids of `folder`/generation_config.json.
/// @error not_found     no config.json
Expected<ModelConfig> load_model_config(const std::filesystem::path& folder);

/// config.json that Hugging Face transformers loads; float32 weights.
std::string to_json(const ModelConfig& config);

/// Name and shape of every tensor of a checkpoint, sorted by name; a tied head is not among them.
struct TensorSpec {
  std::string name;
  std::vector<std::int64_t> shape;
};
std::vector<TensorSpec> tensor_specs(const ModelConfig& config);

}  // namespace memopd

// What sets the supported architectures apart, and the list of problems; internal to policies/model.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace memopd::detail {

/// One architecture of config.json.
struct ModelFamily {
  const char* name;        ///< model_type
  const char* class_name;  ///< in Hugging Face transformers
  bool has_bias;           ///< on q, k and v
  bool has_qk_norm;
  std::int32_t default_head_dim;  ///< where config.json has none; 0 = hidden_size / num_attention_heads
};

inline constexpr std::array<ModelFamily, 3> kModelFamilies = {{{"qwen2", "Qwen2ForCausalLM", true, false, 0},
                                                               {"qwen3", "Qwen3ForCausalLM", false, true, 128},
                                                               {"llama", "LlamaForCausalLM", false, false, 0}}};

/// Null when there is none of that name.
[[nodiscard]] const ModelFamily* find_model_family(const std::string& name);
/// `"qwen2", "qwen3", ..`, for messages.
[[nodiscard]] std::string model_family_names();

/// Problems of one kind, joined into one line.
class Problems {
 public:
  void add(const std::string& text) { text_ += (text_.empty() ? "" : "; ") + text; }
  void require(bool is_met, const std::string& text) {
    if (!is_met) add(text);
  }
  [[nodiscard]] bool empty() const { return text_.empty(); }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace memopd::detail

#include "policies/model/model_config.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "runtime/config/schema.hpp"

namespace memopd {

namespace {

using nlohmann::json;

/// Ten times the deepest decoder there is: a wrong number must not become a list of tensor names without end.
constexpr std::int32_t kMaxLayers = 2000;

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

/// Typed access to the keys of a config.json; every complaint is collected.
class ConfigReader {
 public:
  ConfigReader(const json& object, Problems& problems) : object_(object), problems_(problems) {}

  [[nodiscard]] bool has(const char* key) const { return object_.contains(key) && !object_[key].is_null(); }

  std::int32_t integer(const char* key, std::optional<std::int32_t> fallback = {}) {
    if (!has(key)) {
      problems_.require(fallback.has_value(), std::string(key) + " is missing");
      return fallback.value_or(1);
    }
    const json& value = object_[key];
    if (value.is_number_integer() && value >= 0 && value <= std::numeric_limits<std::int32_t>::max()) {
      return value.get<std::int32_t>();
    }
    problems_.add(std::string(key) + " is " + shown(value) + ", not a size");
    return 1;
  }

  double number(const char* key, double fallback) {
    if (!has(key)) return fallback;
    if (object_[key].is_number()) return object_[key].get<double>();
    problems_.add(std::string(key) + " is " + shown(object_[key]) + ", not a number");
    return fallback;
  }

  bool boolean(const char* key, bool fallback) {
    if (!has(key)) return fallback;
    if (object_[key].is_boolean()) return object_[key].get<bool>();
    problems_.add(std::string(key) + " is " + shown(object_[key]) + ", not true or false");
    return fallback;
  }

  std::string text(const char* key, const std::string& fallback) {
    if (!has(key)) return fallback;
    if (object_[key].is_string()) return object_[key].get<std::string>();
    problems_.add(std::string(key) + " is " + shown(object_[key]) + ", not a string");
    return fallback;
  }

  std::vector<std::int32_t> ids(const char* key) {
    if (!has(key)) return {};
    const json list = object_[key].is_array() ? object_[key] : json::array({object_[key]});
    std::vector<std::int32_t> result;
    for (const json& id : list) {
      if (id.is_number_integer() && id >= 0 && id <= std::numeric_limits<std::int32_t>::max()) {
        result.push_back(id.get<std::int32_t>());
      } else {
        problems_.add(std::string(key) + " holds " + shown(id) + ", not an id");
      }
    }
    return result;
  }

 private:
  static std::string shown(const json& value) {
    return value.dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 80);
  }

  const json& object_;
  Problems& problems_;
};

/// Names everything in `object` that would change numbers and that this decoder does not compute.
std::string unsupported_parts(const json& object, const std::string& architecture) {
  Problems found;
  const auto is_set = [&](const char* key) {
    return object.contains(key) && !object[key].is_null() && object[key] != json(false);
  };
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!is_set(key) || !object[key].is_object()) continue;
    const json& rope = object[key];
    const json type = rope.contains("rope_type") ? rope["rope_type"] : rope.value("type", json("default"));
    found.require(type == "default", std::string(key) + " of type " + type.dump());
    found.require(rope.value("partial_rotary_factor", json(1.0)) == json(1.0),
                  std::string(key) + " partial_rotary_factor");
  }
  found.require(!is_set("use_sliding_window"), "use_sliding_window");
  if (is_set("layer_types") && object["layer_types"].is_array()) {
    const bool is_plain = std::all_of(object["layer_types"].begin(), object["layer_types"].end(),
                                      [](const json& type) { return type == "full_attention"; });
    found.require(is_plain, "layer_types other than full_attention");
  }
  found.require(!is_set("hidden_act") || object["hidden_act"] == "silu", "hidden_act other than silu");
  found.require(!is_set("mlp_bias"), "mlp_bias");
  found.require(!is_set("quantization_config"), "quantization_config");
  found.require(!is_set("partial_rotary_factor") || object["partial_rotary_factor"] == json(1.0),
                "partial_rotary_factor");
  if (architecture == "llama")
    found.require(!is_set("attention_bias"), "attention_bias of llama (it biases o_proj too)");
  return found.text();
}

double rope_theta_of(const json& object, ConfigReader& reader, Problems& problems) {
  if (!reader.has("rope_theta") && object.contains("rope_parameters") && object["rope_parameters"].is_object()) {
    return ConfigReader(object["rope_parameters"], problems).number("rope_theta", 10000.0);
  }
  return reader.number("rope_theta", 10000.0);
}

Expected<std::string> read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return unexpected(ErrorCode::not_found, path.string() + ": cannot be opened");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string layer_prefix(std::int32_t layer) { return "model.layers." + std::to_string(layer) + "."; }

}  // namespace

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
  const bool is_qwen2 = config.architecture == "qwen2";
  problems.require(is_qwen2 || config.architecture == "llama",
                   "architecture is \"" + config.architecture + "\", not \"qwen2\" or \"llama\"");
  // Hugging Face's classes leave no choice here, and a checkpoint of the other kind would load with missing tensors.
  problems.require(is_qwen2 == config.attention_bias || (!is_qwen2 && config.architecture != "llama"),
                   is_qwen2 ? "attention_bias is false, but qwen2 always has it"
                            : "attention_bias is true, but llama has none on q, k and v alone");
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

Expected<ModelConfig> parse_model_config(std::string_view json_text, std::string_view source) {
  const std::string where(source);
  const json object = json::parse(json_text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return unexpected(ErrorCode::parse_error, where + ": not a JSON object");

  Problems problems;
  ConfigReader reader(object, problems);
  ModelConfig config;
  config.architecture = reader.text("model_type", "");
  if (config.architecture != "qwen2" && config.architecture != "llama") {
    return unexpected(ErrorCode::unsupported,
                      where + ": model_type is \"" + config.architecture + "\", supported are \"qwen2\" and \"llama\"");
  }
  if (const std::string parts = unsupported_parts(object, config.architecture); !parts.empty()) {
    return unexpected(ErrorCode::unsupported, where + ": not supported: " + parts);
  }
  config.vocab_size = reader.integer("vocab_size");
  config.hidden_size = reader.integer("hidden_size");
  config.intermediate_size = reader.integer("intermediate_size");
  config.num_hidden_layers = reader.integer("num_hidden_layers");
  config.num_attention_heads = reader.integer("num_attention_heads");
  config.num_key_value_heads = reader.integer("num_key_value_heads", config.num_attention_heads);
  config.head_dim = reader.integer("head_dim", config.hidden_size / std::max(config.num_attention_heads, 1));
  config.rms_norm_eps = reader.number("rms_norm_eps", 1e-6);
  config.rope_theta = rope_theta_of(object, reader, problems);
  config.attention_bias = config.architecture == "qwen2";
  config.tie_word_embeddings = reader.boolean("tie_word_embeddings", false);
  config.max_position_embeddings = reader.integer("max_position_embeddings");
  config.eos_token_ids = reader.ids("eos_token_id");
  if (problems.empty()) {
    if (const auto valid = validate(config); !valid) problems.add(valid.error().message);
  }
  if (!problems.empty()) return unexpected(ErrorCode::parse_error, where + ": " + problems.text());
  return config;
}

Expected<ModelConfig> load_model_config(const std::filesystem::path& folder) {
  const auto path = folder / "config.json";
  const auto text = read_text(path);
  if (!text) return unexpected(text.error());
  auto config = parse_model_config(*text, path.string());
  if (!config) return unexpected(config.error());

  const auto generation_path = folder / "generation_config.json";
  if (const auto generation = read_text(generation_path)) {
    const json object = json::parse(*generation, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object())
      return unexpected(ErrorCode::parse_error, generation_path.string() + ": not a JSON object");
    Problems problems;
    auto ids = ConfigReader(object, problems).ids("eos_token_id");
    if (!problems.empty()) return unexpected(ErrorCode::parse_error, generation_path.string() + ": " + problems.text());
    for (const std::int32_t id : ids) {
      auto& known = config->eos_token_ids;
      if (std::find(known.begin(), known.end(), id) == known.end()) known.push_back(id);
    }
    MEMOPD_RETURN_IF_ERROR(validate(*config));
  }
  return config;
}

std::string to_json(const ModelConfig& config) {
  const bool is_qwen2 = config.architecture == "qwen2";
  json object = {{"architectures", {is_qwen2 ? "Qwen2ForCausalLM" : "LlamaForCausalLM"}},
                 {"model_type", config.architecture},
                 {"vocab_size", config.vocab_size},
                 {"hidden_size", config.hidden_size},
                 {"intermediate_size", config.intermediate_size},
                 {"num_hidden_layers", config.num_hidden_layers},
                 {"num_attention_heads", config.num_attention_heads},
                 {"num_key_value_heads", config.num_key_value_heads},
                 {"head_dim", config.head_dim},
                 {"hidden_act", "silu"},
                 {"rms_norm_eps", config.rms_norm_eps},
                 {"rope_theta", config.rope_theta},
                 {"tie_word_embeddings", config.tie_word_embeddings},
                 {"max_position_embeddings", config.max_position_embeddings},
                 {"torch_dtype", "float32"}};
  if (is_qwen2) {
    object["use_sliding_window"] = false;
  } else {
    object["attention_bias"] = false;
    object["mlp_bias"] = false;
  }
  if (config.eos_token_ids.size() == 1) {
    object["eos_token_id"] = config.eos_token_ids.front();
  } else if (!config.eos_token_ids.empty()) {
    object["eos_token_id"] = config.eos_token_ids;
  } else {
    object["eos_token_id"] = nullptr;
  }
  return object.dump(2) + "\n";
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
    specs.push_back({prefix + "mlp.gate_proj.weight", {f, d}});
    specs.push_back({prefix + "mlp.up_proj.weight", {f, d}});
    specs.push_back({prefix + "mlp.down_proj.weight", {d, f}});
  }
  std::sort(specs.begin(), specs.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return specs;
}

}  // namespace memopd

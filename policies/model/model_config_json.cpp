// config.json and generation_config.json, read and written.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "policies/model/model_config.hpp"
#include "policies/model/model_family.hpp"
#include "runtime/base/check.hpp"

namespace memopd {

namespace {

using detail::Problems;
using nlohmann::json;

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

/// rope_parameters, as transformers 5 writes it, or rope_scaling, as earlier ones do; null = neither.
const json* rope_object(const json& object) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (object.contains(key) && object[key].is_object()) return &object[key];
  }
  return nullptr;
}

json rope_type(const json& rope) {
  return rope.contains("rope_type") ? rope["rope_type"] : rope.value("type", json("default"));
}

/// Names everything in `object` that would change numbers and that this decoder does not compute.
void add_unsupported_parts(const json& object, const detail::ModelFamily& family, Problems& found) {
  const auto is_set = [&](const char* key) {
    return object.contains(key) && !object[key].is_null() && object[key] != json(false);
  };
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!is_set(key) || !object[key].is_object()) continue;
    const json& rope = object[key];
    const json type = rope_type(rope);
    found.require(type == "default" || type == "llama3",
                  std::string(key) + " of type " + type.dump() + R"(, supported are "default" and "llama3")");
    found.require(rope.value("partial_rotary_factor", json(1.0)) == json(1.0),
                  std::string(key) + " partial_rotary_factor");
  }
  const bool has_both = is_set("rope_scaling") && is_set("rope_parameters");
  found.require(!has_both || object["rope_scaling"] == object["rope_parameters"],
                "rope_scaling and rope_parameters that differ");
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
  found.require(family.has_bias || !is_set("attention_bias"),
                std::string("attention_bias of ") + family.name + " (it biases o_proj too)");
}

double rope_theta_of(const json& object, ConfigReader& reader, Problems& problems) {
  const json* rope = rope_object(object);
  if (!reader.has("rope_theta") && rope != nullptr) return ConfigReader(*rope, problems).number("rope_theta", 10000.0);
  return reader.number("rope_theta", 10000.0);
}

std::optional<Llama3RopeScaling> rope_scaling_of(const json& object, Problems& problems) {
  const json* rope = rope_object(object);
  if (rope == nullptr || rope_type(*rope) != "llama3") return std::nullopt;
  ConfigReader reader(*rope, problems);
  for (const char* key : {"factor", "low_freq_factor", "high_freq_factor"}) {
    problems.require(reader.has(key), std::string("rope scaling llama3: ") + key + " is missing");
  }
  return Llama3RopeScaling{reader.number("factor", 1.0), reader.number("low_freq_factor", 1.0),
                           reader.number("high_freq_factor", 4.0), reader.integer("original_max_position_embeddings")};
}

Expected<std::string> read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return unexpected(ErrorCode::not_found, path.string() + ": cannot be opened");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

Expected<ModelConfig> parse_model_config(std::string_view json_text, std::string_view source) {
  const std::string where(source);
  const json object = json::parse(json_text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return unexpected(ErrorCode::parse_error, where + ": not a JSON object");

  Problems problems;
  ConfigReader reader(object, problems);
  ModelConfig config;
  config.architecture = reader.text("model_type", "");
  const detail::ModelFamily* family = detail::find_model_family(config.architecture);
  if (family == nullptr) {
    return unexpected(ErrorCode::unsupported, where + ": model_type is \"" + config.architecture +
                                                  "\", supported are " + detail::model_family_names());
  }
  Problems unsupported;
  add_unsupported_parts(object, *family, unsupported);
  config.vocab_size = reader.integer("vocab_size");
  config.hidden_size = reader.integer("hidden_size");
  config.intermediate_size = reader.integer("intermediate_size");
  config.num_hidden_layers = reader.integer("num_hidden_layers");
  config.num_attention_heads = reader.integer("num_attention_heads");
  config.num_key_value_heads = reader.integer("num_key_value_heads", config.num_attention_heads);
  const std::int32_t even_share = config.hidden_size / std::max(config.num_attention_heads, 1);
  config.head_dim = reader.integer("head_dim", family->default_head_dim > 0 ? family->default_head_dim : even_share);
  config.rms_norm_eps = reader.number("rms_norm_eps", 1e-6);
  config.rope_theta = rope_theta_of(object, reader, problems);
  config.rope_scaling = rope_scaling_of(object, problems);
  config.attention_bias = family->has_bias;
  config.tie_word_embeddings = reader.boolean("tie_word_embeddings", false);
  config.max_position_embeddings = reader.integer("max_position_embeddings");
  config.eos_token_ids = reader.ids("eos_token_id");
  if (problems.empty()) {
    if (const auto valid = validate(config); !valid) problems.add(valid.error().message);
  }
  if (!unsupported.empty()) {
    return unexpected(ErrorCode::unsupported, where + ": not supported: " + unsupported.text() +
                                                  (problems.empty() ? "" : "; also: " + problems.text()));
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

std::string to_json(const ModelConfig& config, DType dtype) {
  const detail::ModelFamily* family = detail::find_model_family(config.architecture);
  MEMOPD_CHECK(family != nullptr, "a config that passed validate");
  json object = {{"architectures", {family->class_name}},
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
                 {"torch_dtype", std::string(to_string(dtype))}};
  if (config.architecture != "llama") object["use_sliding_window"] = false;
  if (!family->has_bias) object["attention_bias"] = false;
  if (config.architecture == "llama") object["mlp_bias"] = false;
  if (config.rope_scaling) {
    object["rope_scaling"] = {
        {"rope_type", "llama3"},
        {"factor", config.rope_scaling->factor},
        {"low_freq_factor", config.rope_scaling->low_freq_factor},
        {"high_freq_factor", config.rope_scaling->high_freq_factor},
        {"original_max_position_embeddings", config.rope_scaling->original_max_position_embeddings}};
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

}  // namespace memopd

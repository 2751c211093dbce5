// Reading and writing of tokenizer.json and tokenizer_config.json as whole files.
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "policies/text/byte_alphabet.hpp"
#include "policies/text/tokenizer.hpp"
#include "policies/text/tokenizer_json.hpp"

namespace memopd {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

Expected<std::string> read_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    return unexpected(ErrorCode::not_found, path.string() + ": no such file");
  }
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.good() && !file.eof()) {
    return unexpected(ErrorCode::io_error, path.string() + ": cannot be read");
  }
  return text;
}

/// Empty for a file that is not there.
Expected<std::string> read_optional(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? read_file(path) : std::string();
}

Expected<void> write_file(const std::filesystem::path& path, const std::string& text) {
  const std::filesystem::path partial = path.string() + ".partial";
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  std::error_code error;
  if (file) {
    std::filesystem::rename(partial, path, error);
  }
  if (!file || error) {
    return unexpected(ErrorCode::io_error,
                      path.string() + ": cannot be written" + (error ? ": " + error.message() : std::string()));
  }
  return {};
}

/// A section with its place in the file in front of what is wrong with it.
Error with_file(Error error, const std::filesystem::path& path) {
  error.message = path.string() + ": " + error.message;
  return error;
}

json section(const json& file, const char* key) { return file.contains(key) ? file[key] : json(); }

Expected<void> check_top_level(const json& file) {
  MEMOPD_RETURN_IF_ERROR(detail::check_keys(file, "top level",
                                            {"version", "truncation", "padding", "added_tokens", "normalizer",
                                             "pre_tokenizer", "post_processor", "decoder", "model"}));
  if (section(file, "version") != "1.0") {
    return unexpected(ErrorCode::unsupported,
                      "tokenizer.json: version: found " + section(file, "version").dump() + ", supported: \"1.0\"");
  }
  for (const char* key : {"truncation", "padding"}) {
    if (!section(file, key).is_null()) {
      return unexpected(ErrorCode::unsupported, std::string("tokenizer.json: ") + key + ": found " +
                                                    section(file, key).dump() + ", supported: null");
    }
  }
  MEMOPD_RETURN_IF_ERROR(detail::check_decoder(section(file, "decoder")));
  return detail::check_post_processor(section(file, "post_processor"), "post_processor");
}

/// What is read of tokenizer_config.json; empty = not there.
struct TokenizerConfig {
  std::string eos_token;
  std::string bos_token;
  std::string chat_template;  // of several, the one named "default"
};

/// A token's text, which stands there alone or in an object; empty = none.
Expected<std::string> read_token(const json& config, const char* key) {
  json token = section(config, key);
  if (token.is_object()) {
    token = section(token, "content");
  }
  if (!token.is_null() && !token.is_string()) {
    return unexpected(ErrorCode::parse_error, std::string("tokenizer_config.json: ") + key +
                                                  ": expected a string, found " + token.dump().substr(0, 80));
  }
  return token.is_null() ? std::string() : token.get<std::string>();
}

Expected<TokenizerConfig> read_config(std::string_view text) {
  if (text.empty()) {
    return TokenizerConfig();
  }
  const auto object = detail::parse_json_object(text, "tokenizer_config.json");
  if (!object) {
    return unexpected(object.error());
  }
  auto eos_token = read_token(*object, "eos_token");
  if (!eos_token) {
    return unexpected(eos_token.error());
  }
  auto bos_token = read_token(*object, "bos_token");
  if (!bos_token) {
    return unexpected(bos_token.error());
  }
  const json chat_template = section(*object, "chat_template");
  TokenizerConfig config{std::move(*eos_token), std::move(*bos_token),
                         chat_template.is_string() ? chat_template.get<std::string>() : std::string()};
  for (const json& named : chat_template.is_array() ? chat_template : json::array()) {
    if (section(named, "name") == "default" && section(named, "template").is_string()) {
      config.chat_template = section(named, "template").get<std::string>();
    }
  }
  return config;
}

}  // namespace

Expected<Tokenizer> Tokenizer::from_json(std::string_view tokenizer_json, std::string_view tokenizer_config_json,
                                         std::string_view chat_template_jinja) {
  auto file = detail::parse_json_object(tokenizer_json, "tokenizer.json");
  if (!file) {
    return unexpected(file.error());
  }
  MEMOPD_RETURN_IF_ERROR(check_top_level(*file));
  auto normal_form = detail::read_normalizer(section(*file, "normalizer"));
  if (!normal_form) {
    return unexpected(normal_form.error());
  }
  auto patterns = detail::read_pre_tokenizer(section(*file, "pre_tokenizer"));
  if (!patterns) {
    return unexpected(patterns.error());
  }
  auto model = detail::read_model(section(*file, "model"));
  if (!model) {
    return unexpected(model.error());
  }
  auto added = detail::read_added_tokens(section(*file, "added_tokens"), (*file)["model"]["vocab"]);
  if (!added) {
    return unexpected(added.error());
  }
  const auto config = read_config(tokenizer_config_json);
  if (!config) {
    return unexpected(config.error());
  }

  auto parts = std::make_shared<detail::TokenizerParts>(std::move(*model));
  parts->normal_form = *normal_form;
  parts->patterns = std::move(*patterns);
  parts->added_tokens = std::move(*added);
  parts->sections = {section(*file, "normalizer").dump(),
                     section(*file, "pre_tokenizer").dump(),
                     section(*file, "post_processor").dump(),
                     section(*file, "decoder").dump(),
                     section((*file)["model"], "unk_token").dump(),
                     std::string(tokenizer_config_json),
                     std::string(chat_template_jinja)};
  parts->finish();
  Tokenizer tokenizer(parts);
  parts->bos_token = config->bos_token;
  parts->chat_template = chat_template_jinja.empty() ? config->chat_template : std::string(chat_template_jinja);
  if (!config->eos_token.empty()) {
    parts->eos_id = tokenizer.token_id(config->eos_token);
    if (!parts->eos_id) {
      return unexpected(ErrorCode::parse_error, "tokenizer_config.json: eos_token \"" + config->eos_token +
                                                    "\" is not a token of tokenizer.json");
    }
  }
  return tokenizer;
}

Expected<Tokenizer> Tokenizer::load(const std::filesystem::path& path) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  const std::filesystem::path file = is_folder ? path / "tokenizer.json" : path;
  const auto text = read_file(file);
  if (!text) {
    return unexpected(text.error());
  }
  const auto config = read_optional(file.parent_path() / "tokenizer_config.json");
  if (!config) {
    return unexpected(config.error());
  }
  const auto jinja = read_optional(file.parent_path() / "chat_template.jinja");
  if (!jinja) {
    return unexpected(jinja.error());
  }
  auto tokenizer = from_json(*text, *config, *jinja);
  if (!tokenizer) {
    return unexpected(with_file(tokenizer.error(), file.parent_path()));
  }
  return tokenizer;
}

std::string Tokenizer::to_json() const {
  const BpeModel& model = parts_->model;
  const auto text_of = [&model](std::int32_t id) {
    const BpeToken& token = model.tokens()[static_cast<std::size_t>(id)];
    return token.is_literal ? token.bytes : to_byte_alphabet(token.bytes);
  };
  ordered_json added = ordered_json::array();
  for (const AddedToken& token : parts_->added_tokens) {
    added.push_back({{"id", token.id},
                     {"content", token.content},
                     {"single_word", token.is_single_word},
                     {"lstrip", token.strips_left},
                     {"rstrip", token.strips_right},
                     {"normalized", token.is_normalized},
                     {"special", token.is_special}});
  }
  // Written by hand where order matters and is not that of keys: an ordered_json looks a key up in linear time.
  std::string vocab;
  for (std::size_t id = 0; id < model.tokens().size(); ++id) {
    if (model.tokens()[id].is_present) {
      vocab += (vocab.empty() ? "" : ",\n      ") + json(text_of(static_cast<std::int32_t>(id))).dump() + ": " +
               std::to_string(id);
    }
  }
  std::string merges;
  for (const BpeMerge& merge : model.merges()) {
    merges += (merges.empty() ? "" : ",\n      ") + json::array({text_of(merge.left), text_of(merge.right)}).dump();
  }
  const detail::TokenizerSections& sections = parts_->sections;
  return "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": " +
         added.dump() + ",\n  \"normalizer\": " + sections.normalizer +
         ",\n  \"pre_tokenizer\": " + sections.pre_tokenizer + ",\n  \"post_processor\": " + sections.post_processor +
         ",\n  \"decoder\": " + sections.decoder +
         ",\n  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": " + sections.unk_token +
         ",\n    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n" +
         "    \"byte_fallback\": false,\n    \"ignore_merges\": " + (model.ignores_merges() ? "true" : "false") +
         ",\n    \"vocab\": {\n      " + vocab + "\n    },\n    \"merges\": [\n      " + merges + "\n    ]\n  }\n}\n";
}

std::string Tokenizer::config_json() const {
  if (!parts_->sections.config.empty()) {
    return parts_->sections.config;
  }
  ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  if (parts_->eos_id) {
    config["eos_token"] = std::string(token_bytes(*parts_->eos_id));
  }
  return config.dump(2) + "\n";
}

Expected<void> Tokenizer::save(const std::filesystem::path& folder) const {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return unexpected(ErrorCode::io_error, folder.string() + ": cannot be created: " + error.message());
  }
  MEMOPD_RETURN_IF_ERROR(write_file(folder / "tokenizer.json", to_json()));
  MEMOPD_RETURN_IF_ERROR(write_file(folder / "tokenizer_config.json", config_json()));
  return parts_->sections.jinja.empty() ? Expected<void>()
                                        : write_file(folder / "chat_template.jinja", parts_->sections.jinja);
}

}  // namespace memopd

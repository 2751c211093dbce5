#include "policies/text/tokenizer_json.hpp"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <unordered_set>
#include <utility>

#include "policies/text/byte_alphabet.hpp"

namespace memopd::detail {
namespace {

using nlohmann::json;

/// Ids above this are taken for damage: no vocabulary is near it, and tables are allocated by the largest id.
constexpr std::int64_t kMaxId = 1 << 21;
/// Files nest six levels. What works on a parsed file calls itself once for each level.
constexpr std::size_t kMaxDepth = 64;

Unexpected unsupported(const std::string& path, const json& found, const std::string& allowed) {
  return unexpected(ErrorCode::unsupported,
                    "tokenizer.json: " + path + ": found " +
                        found.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 80) +
                        ", supported: " + allowed);
}

Unexpected malformed(const std::string& path, const std::string& what) {
  return unexpected(ErrorCode::parse_error, "tokenizer.json: " + path + ": " + what);
}

const json& member(const json& object, const std::string& key) {
  static const json kNull;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? kNull : *found;
}

std::string type_of(const json& section) {
  const json& type = member(section, "type");
  return type.is_string() ? type.get<std::string>() : std::string();
}

/// Null and false are the same; so is an absent key.
bool is_off(const json& value) { return value.is_null() || value == false; }

Expected<void> check_booleans(const json& object, const std::string& path, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (const json& value = member(object, key); !value.is_null() && !value.is_boolean()) {
      return malformed(path + "." + key, "expected true or false");
    }
  }
  return {};
}

bool is_id(const json& value) {
  return value.is_number_integer() && value.get<std::int64_t>() >= 0 && value.get<std::int64_t>() < kMaxId;
}

Expected<void> append_pattern(std::string_view pattern, const std::string& path, std::vector<Regex>& patterns) {
  auto regex = Regex::compile(pattern);
  if (!regex) {
    return malformed(path, regex.error().message);
  }
  patterns.push_back(std::move(*regex));
  return {};
}

Expected<void> read_split(const json& step, const std::string& path, std::vector<Regex>& patterns) {
  MEMOPD_RETURN_IF_ERROR(check_keys(step, path, {"type", "pattern", "behavior", "invert"}));
  const json& pattern = member(member(step, "pattern"), "Regex");
  if (!pattern.is_string()) {
    return unsupported(path + ".pattern", member(step, "pattern"), "{\"Regex\": ..}");
  }
  if (member(step, "behavior") != "Isolated") {
    return unsupported(path + ".behavior", member(step, "behavior"), "\"Isolated\"");
  }
  if (!is_off(member(step, "invert"))) {
    return unsupported(path + ".invert", member(step, "invert"), "false");
  }
  return append_pattern(pattern.get<std::string>(), path + ".pattern.Regex", patterns);
}

Expected<void> read_byte_level(const json& step, const std::string& path, std::vector<Regex>& patterns) {
  MEMOPD_RETURN_IF_ERROR(check_keys(step, path, {"type", "add_prefix_space", "trim_offsets", "use_regex"}));
  MEMOPD_RETURN_IF_ERROR(check_booleans(step, path, {"add_prefix_space", "use_regex"}));
  if (!is_off(member(step, "add_prefix_space"))) {
    return unsupported(path + ".add_prefix_space", member(step, "add_prefix_space"), "false");
  }
  return is_off(member(step, "use_regex")) && step.contains("use_regex") ? Expected<void>()
                                                                         : append_pattern(kGpt2Pattern, path, patterns);
}

Expected<void> read_pre_tokenizer_step(const json& step, const std::string& path, std::vector<Regex>& patterns) {
  const std::string type = type_of(step);
  if (type == "Split") {
    return read_split(step, path, patterns);
  }
  if (type == "Digits") {
    MEMOPD_RETURN_IF_ERROR(check_keys(step, path, {"type", "individual_digits"}));
    MEMOPD_RETURN_IF_ERROR(check_booleans(step, path, {"individual_digits"}));
    return append_pattern(is_off(member(step, "individual_digits")) ? kDigitsPattern : kDigitPattern, path, patterns);
  }
  return type == "ByteLevel" ? read_byte_level(step, path, patterns)
                             : unsupported(path, step, "Split, Digits, and ByteLevel as the last step");
}

Expected<BpeMerge> read_merge(const json& value, const json& vocab, const std::string& path) {
  std::string left;
  std::string right;
  if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string()) {
    left = value[0].get<std::string>();
    right = value[1].get<std::string>();
  } else if (value.is_string()) {
    const auto text = value.get<std::string>();
    const std::size_t space = text.find(' ');
    left = text.substr(0, space);
    right = space == std::string::npos ? "" : text.substr(space + 1);
  } else {
    return malformed(path, "expected \"left right\" or [left, right]");
  }
  BpeMerge merge;
  for (const auto& [text, id] : {std::pair(&left, &merge.left), std::pair(&right, &merge.right)}) {
    const json& found = member(vocab, *text);
    if (!is_id(found)) {
      return malformed(path, "\"" + *text + "\" is not in model.vocab");
    }
    *id = found.get<std::int32_t>();
  }
  const json& merged = member(vocab, left + right);
  if (!is_id(merged)) {
    return malformed(path, "\"" + left + right + "\", its result, is not in model.vocab");
  }
  merge.merged = merged.get<std::int32_t>();
  return merge;
}

Expected<std::vector<BpeToken>> read_vocab(const json& vocab) {
  if (!vocab.is_object() || vocab.empty()) {
    return malformed("model.vocab", "expected an object of token: id");
  }
  std::vector<BpeToken> tokens;
  for (const auto& [text, id] : vocab.items()) {
    if (!is_id(id)) {
      return malformed("model.vocab", "\"" + text + "\": not an id below " + std::to_string(kMaxId));
    }
    const auto index = id.get<std::size_t>();
    if (index >= tokens.size()) {
      tokens.resize(std::max(index + 1, tokens.size() + tokens.size() / 2));
    }
    if (tokens[index].is_present) {
      return malformed("model.vocab", "\"" + text + "\": id " + std::to_string(index) + " appears twice");
    }
    auto bytes = from_byte_alphabet(text);
    tokens[index] = {bytes ? std::move(*bytes) : text, !bytes, true};
  }
  while (!tokens.back().is_present) {
    tokens.pop_back();
  }
  return tokens;
}

Expected<void> check_model_settings(const json& model) {
  MEMOPD_RETURN_IF_ERROR(check_keys(model, "model",
                                    {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                                     "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"}));
  MEMOPD_RETURN_IF_ERROR(check_booleans(model, "model", {"ignore_merges"}));
  if (member(model, "type") != "BPE") {
    return unsupported("model.type", member(model, "type"), "\"BPE\"");
  }
  if (const json& dropout = member(model, "dropout"); !dropout.is_null() && dropout != 0.0) {
    return unsupported("model.dropout", dropout, "null");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (const json& affix = member(model, key); !affix.is_null() && affix != "") {
      return unsupported(std::string("model.") + key, affix, "null or \"\"");
    }
  }
  if (!is_off(member(model, "byte_fallback"))) {
    return unsupported("model.byte_fallback", member(model, "byte_fallback"), "false");
  }
  return {};
}

/// Levels of brackets in JSON text; what stands in strings does not count. Valid for text that is not JSON, too.
std::size_t nesting_depth(std::string_view text) {
  std::size_t depth = 0;
  std::size_t deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      i += c == '\\' ? 1 : 0;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

Expected<AddedToken> read_added_token(const json& value, const json& vocab, const std::string& path) {
  MEMOPD_RETURN_IF_ERROR(
      check_keys(value, path, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}));
  const json& content = member(value, "content");
  if (!is_id(member(value, "id")) || !content.is_string() || content == "") {
    return malformed(path, "expected an id and a content");
  }
  MEMOPD_RETURN_IF_ERROR(check_booleans(value, path, {"single_word", "lstrip", "rstrip", "normalized", "special"}));
  AddedToken token{member(value, "id").get<std::int32_t>(), content.get<std::string>(),
                   !is_off(member(value, "special")),       !is_off(member(value, "normalized")),
                   !is_off(member(value, "single_word")),   !is_off(member(value, "lstrip")),
                   !is_off(member(value, "rstrip"))};
  const json& vocab_id = member(vocab, token.content);
  if (!vocab_id.is_null() && vocab_id != token.id) {
    return malformed(path, "\"" + token.content + "\" has id " + std::to_string(token.id) + " here and " +
                               vocab_id.dump() + " in model.vocab");
  }
  return token;
}

}  // namespace

Expected<json> parse_json_object(std::string_view text, const std::string& file) {
  if (nesting_depth(text) > kMaxDepth) {
    return unexpected(ErrorCode::parse_error,
                      file + ": nested deeper than the " + std::to_string(kMaxDepth) + " levels allowed");
  }
  try {
    json value = json::parse(text);
    if (value.is_object()) {
      return value;
    }
    return unexpected(ErrorCode::parse_error, file + ": expected a JSON object");
  } catch (const json::exception& error) {
    return unexpected(ErrorCode::parse_error, file + ": " + error.what());
  }
}

Expected<void> check_keys(const json& object, const std::string& path, const std::vector<std::string>& allowed) {
  if (!object.is_object()) {
    return malformed(path, "expected an object");
  }
  for (const auto& [key, value] : object.items()) {
    if (std::find(allowed.begin(), allowed.end(), key) == allowed.end()) {
      std::string known;
      for (const std::string& name : allowed) {
        known += (known.empty() ? "" : ", ") + name;
      }
      return unsupported(path + "." + key, value, known);
    }
  }
  return {};
}

Expected<NormalForm> read_normalizer(const json& value) {
  if (value.is_null()) {
    return NormalForm::none;
  }
  const std::string type = type_of(value);
  if (type == "NFC" || type == "NFKC") {
    return type == "NFC" ? NormalForm::nfc : NormalForm::nfkc;
  }
  const json& steps = member(value, "normalizers");
  if (type == "Sequence" && steps.is_array() && steps.size() <= 1) {
    return steps.empty() ? NormalForm::none : read_normalizer(steps[0]);
  }
  return unsupported("normalizer", value, "null, NFC, NFKC");
}

Expected<std::vector<Regex>> read_pre_tokenizer(const json& value) {
  json steps = json::array({value});
  if (type_of(value) == "Sequence" && member(value, "pretokenizers").is_array()) {
    steps = member(value, "pretokenizers");
  }
  if (steps.empty() || type_of(steps.back()) != "ByteLevel") {
    return unsupported("pre_tokenizer", value, "Split, Digits, and ByteLevel as the last step");
  }
  std::vector<Regex> patterns;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::string path = "pre_tokenizer.pretokenizers[" + std::to_string(i) + "]";
    if (i + 1 < steps.size() && type_of(steps[i]) == "ByteLevel") {
      return unsupported(path, steps[i], "ByteLevel as the last step only");
    }
    MEMOPD_RETURN_IF_ERROR(read_pre_tokenizer_step(steps[i], path, patterns));
  }
  return patterns;
}

Expected<void> check_decoder(const json& value) {
  if (type_of(value) != "ByteLevel") {
    return unsupported("decoder", value, "ByteLevel");
  }
  return {};
}

Expected<void> check_post_processor(const json& value, const std::string& path) {
  const std::string type = type_of(value);
  if (value.is_null() || type == "ByteLevel" || type == "TemplateProcessing") {
    return {};
  }
  if (type != "Sequence" || !member(value, "processors").is_array()) {
    return unsupported(path, value, "null, ByteLevel, TemplateProcessing");
  }
  for (const json& step : member(value, "processors")) {
    MEMOPD_RETURN_IF_ERROR(check_post_processor(step, path + ".processors"));
  }
  return {};
}

Expected<BpeModel> read_model(const json& value) {
  MEMOPD_RETURN_IF_ERROR(check_model_settings(value));
  const json& vocab = member(value, "vocab");
  auto tokens = read_vocab(vocab);
  if (!tokens) {
    return unexpected(tokens.error());
  }
  const json& list = member(value, "merges");
  if (!list.is_array()) {
    return malformed("model.merges", "expected a list");
  }
  std::vector<BpeMerge> merges;
  merges.reserve(list.size());
  for (std::size_t rank = 0; rank < list.size(); ++rank) {
    auto merge = read_merge(list[rank], vocab, "model.merges[" + std::to_string(rank) + "]");
    if (!merge) {
      return unexpected(merge.error());
    }
    merges.push_back(*merge);
  }
  auto model = BpeModel::create(std::move(*tokens), std::move(merges), !is_off(member(value, "ignore_merges")));
  if (!model) {
    return unexpected(model.error().code, "tokenizer.json: model.vocab: " + model.error().message);
  }
  if (!model->missing_bytes().empty() && !member(value, "unk_token").is_null()) {
    return unsupported("model.unk_token", member(value, "unk_token"), "null where bytes have no token");
  }
  return model;
}

Expected<std::vector<AddedToken>> read_added_tokens(const json& value, const json& vocab) {
  std::vector<AddedToken> tokens;
  if (!value.is_null() && !value.is_array()) {
    return malformed("added_tokens", "expected a list");
  }
  std::unordered_set<std::int32_t> vocab_ids;
  for (const json& id : vocab) {
    vocab_ids.insert(id.get<std::int32_t>());
  }
  std::unordered_set<std::string> contents;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string path = "added_tokens[" + std::to_string(i) + "]";
    auto token = read_added_token(value[i], vocab, path);
    if (!token) {
      return unexpected(token.error());
    }
    const bool is_new_id = vocab.contains(token->content) || vocab_ids.insert(token->id).second;
    if (!contents.insert(token->content).second || !is_new_id) {
      return malformed(path, "\"" + token->content + "\" or its id " + std::to_string(token->id) + " appears twice");
    }
    tokens.push_back(std::move(*token));
  }
  std::sort(tokens.begin(), tokens.end(), [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  return tokens;
}

std::string split_section(std::string_view pattern) {
  const json split = {
      {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  const json bytes = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  return json{{"type", "Sequence"}, {"pretokenizers", json::array({split, bytes})}}.dump();
}

std::string post_processor_section() {
  return json{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}}.dump();
}

std::string decoder_section() {
  return json{{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}.dump();
}

std::string normalizer_section(NormalForm form) {
  return form == NormalForm::none ? "null" : json{{"type", form == NormalForm::nfc ? "NFC" : "NFKC"}}.dump();
}

}  // namespace memopd::detail

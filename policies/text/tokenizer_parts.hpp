// What a tokenizer is made of; internal to policies/text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policies/text/added_tokens.hpp"
#include "policies/text/bpe_model.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/text/regex.hpp"
#include "runtime/text/unicode.hpp"
#include "runtime/text/word_scanner.hpp"

namespace memopd {

namespace detail {

/// Sections of tokenizer.json that are written back as they were read.
struct TokenizerSections {
  std::string normalizer;
  std::string pre_tokenizer;
  std::string post_processor;
  std::string decoder;
  std::string unk_token;  // JSON: null or a string
  std::string config;     // tokenizer_config.json; empty = there was none
  std::string jinja;      // chat_template.jinja; empty = there was none
};

struct TokenizerParts {
  explicit TokenizerParts(BpeModel bpe_model) : model(std::move(bpe_model)) {}

  NormalForm normal_form = NormalForm::none;
  std::vector<Regex> patterns;  // one after the other, each within the pieces of the one before
  BpeModel model;
  std::vector<AddedToken> added_tokens;  // by id
  std::optional<std::int32_t> eos_id;
  std::string bos_token;
  std::string chat_template;
  TokenizerSections sections;

  // Filled by finish().
  std::array<AddedTokenMatcher, 2> matchers;  // [in normalised text]
  std::vector<std::string_view> bytes_by_id;  // views into model and added_tokens
  std::vector<bool> is_special;
  std::unordered_map<std::string_view, std::int32_t> ids_by_bytes;

  /// Derives the tables above. The object must not move afterwards.
  void finish();
};

/// Cuts text into the pieces that are merged on their own; they cover it.
[[nodiscard]] std::vector<ByteRange> pre_tokenize(const std::vector<Regex>& patterns, std::string_view text);

/// Everything that happens to a text before merging: `on_piece(string_view)` and `on_added(id)` in order.
template <class OnPiece, class OnAdded>
void for_each_piece(const TokenizerParts& parts, std::string_view text, bool special_tokens, OnPiece on_piece,
                    OnAdded on_added) {
  const auto on_plain = [&](std::string_view plain) {
    for (const ByteRange& piece : pre_tokenize(parts.patterns, plain)) {
      on_piece(plain.substr(piece.begin, piece.end - piece.begin));
    }
  };
  const auto on_raw = [&](std::string_view raw) {
    const std::string normalized = normalize_unicode9(raw, parts.normal_form);
    parts.matchers[1].split(normalized, special_tokens, on_plain, on_added);
  };
  parts.matchers[0].split(text, special_tokens, on_raw, on_added);
}

}  // namespace detail
}  // namespace memopd

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

namespace memopd {

/// Qwen2's pre-tokenizer; also what a trained vocabulary uses unless told otherwise.
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
/// GPT-2's, which a ByteLevel pre-tokenizer with use_regex applies.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace detail {

/// Sections of tokenizer.json that are written back as they were read.
struct TokenizerSections {
  std::string normalizer;
  std::string pre_tokenizer;
  std::string post_processor;
  std::string decoder;
  std::string unk_token;  // JSON: null or a string
  std::string config;     // tokenizer_config.json; empty = there was none
};

struct TokenizerParts {
  explicit TokenizerParts(BpeModel bpe_model) : model(std::move(bpe_model)) {}

  NormalForm normal_form = NormalForm::none;
  std::vector<Regex> patterns;  // one after the other, each within the pieces of the one before
  BpeModel model;
  std::vector<AddedToken> added_tokens;  // by id
  std::optional<std::int32_t> eos_id;
  TokenizerSections sections;

  // Filled by finish().
  std::array<std::array<AddedTokenMatcher, 2>, 2> matchers;  // [special tokens too][in normalised text]
  std::vector<std::string_view> bytes_by_id;                 // views into model and added_tokens
  std::vector<bool> is_special;
  std::unordered_map<std::string_view, std::int32_t> ids_by_bytes;

  /// Derives the tables above. The object must not move afterwards.
  void finish();
};

/// Calls `on_text` for each stretch between added tokens and `on_added` for each of these, in order.
template <class OnText, class OnAdded>
void split_added(const AddedTokenMatcher& matcher, std::string_view text, OnText on_text, OnAdded on_added) {
  for (std::size_t begin = 0; begin < text.size();) {
    const auto match = matcher.find(text, begin);
    const std::size_t end = match ? match->begin : text.size();
    if (end > begin) {
      on_text(text.substr(begin, end - begin));
    }
    if (!match) {
      return;
    }
    on_added(match->id);
    begin = match->end;
  }
}

/// Cuts text into the pieces that are merged on their own; they cover it.
[[nodiscard]] std::vector<ByteRange> pre_tokenize(const std::vector<Regex>& patterns, std::string_view text);

/// Everything that happens to a text before merging: `on_piece(string_view)` and `on_added(id)` in order.
template <class OnPiece, class OnAdded>
void for_each_piece(const TokenizerParts& parts, std::string_view text, bool special_tokens, OnPiece on_piece,
                    OnAdded on_added) {
  const auto& matchers = parts.matchers[special_tokens ? 1 : 0];
  const auto on_plain = [&](std::string_view plain) {
    for (const ByteRange& piece : pre_tokenize(parts.patterns, plain)) {
      on_piece(plain.substr(piece.begin, piece.end - piece.begin));
    }
  };
  const auto on_raw = [&](std::string_view raw) {
    const std::string normalized = normalize(raw, parts.normal_form);
    split_added(matchers[1], normalized, on_plain, on_added);
  };
  split_added(matchers[0], text, on_raw, on_added);
}

}  // namespace detail
}  // namespace memopd

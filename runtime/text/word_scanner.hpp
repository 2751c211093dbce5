// The pre-tokenizer patterns of GPT-2, Qwen2 and Llama 3 as code; internal to runtime/text.
//
// WS-1  cuts every well-formed text exactly where the pattern does, without a regular expression engine. Classes are those
//       of character_class.hpp, two Unicode versions ahead of ICU 72.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/text/character_class.hpp"

namespace memopd {

/// GPT-2's, which a ByteLevel pre-tokenizer with use_regex applies.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
/// Qwen2's; also what a trained vocabulary uses unless told otherwise.
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
/// Llama 3's: Qwen2's with up to three numbers in a piece.
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
/// A Digits pre-tokenizer, with individual_digits and without.
inline constexpr std::string_view kDigitPattern = R"(\p{N})";
inline constexpr std::string_view kDigitsPattern = R"(\p{N}+)";

namespace detail {

/// Immutable, thread-safe, a few bytes.
class WordScanner {
 public:
  /// Nothing for a pattern that is none of the above, letter for letter.
  static std::optional<WordScanner> for_pattern(std::string_view pattern);

  struct Piece {
    std::size_t end = 0;
    bool is_match = true;
  };
  /// The match, or the stretch without one, that begins at byte `begin`.
  /// @param text  well-formed UTF-8, taken for the whole text
  /// @param begin < text.size()
  [[nodiscard]] Piece scan(std::string_view text, std::size_t begin) const;

 private:
  enum class Rules : std::uint8_t { gpt2, qwen2, digits };
  WordScanner(Rules rules, std::size_t max_numbers)
      : rules_(rules), max_numbers_(max_numbers), classes_(character_classes()) {}

  [[nodiscard]] std::size_t gpt2(std::string_view text, std::size_t begin) const;
  [[nodiscard]] std::size_t qwen2(std::string_view text, std::size_t begin) const;
  [[nodiscard]] Piece digits(std::string_view text, std::size_t begin) const;
  [[nodiscard]] std::size_t run(std::string_view text, std::size_t begin, CharacterClass kind, std::size_t max) const;
  [[nodiscard]] std::size_t punctuation(std::string_view text, std::size_t begin) const;
  [[nodiscard]] std::size_t spaces(std::string_view text, std::size_t begin, bool ends_at_newline) const;

  Rules rules_;
  std::size_t max_numbers_;  // in one piece
  const CharacterClass* classes_;
};

}  // namespace detail
}  // namespace memopd

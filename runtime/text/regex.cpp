#include "runtime/text/regex.hpp"

#include <unicode/regex.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "runtime/text/unicode.hpp"
#include "runtime/text/utf8_stretches.hpp"
#include "runtime/text/word_scanner.hpp"

namespace memopd {
namespace {

/// UTF-16 code units of a well-formed text, and for each the byte where its character begins; one entry more at the end.
struct Utf16Text {
  explicit Utf16Text(std::string_view text) {
    units.reserve(text.size());
    byte_offsets.reserve(text.size() + 1);
    const char* bytes = text.data();
    for (std::size_t index = 0; index < text.size();) {
      const std::size_t start = index;
      UChar32 character = 0;
      U8_NEXT_UNSAFE(bytes, index, character);
      if (character > 0xFFFF) {
        push(U16_LEAD(character), start);
        push(U16_TRAIL(character), start);
      } else {
        push(static_cast<char16_t>(character), start);
      }
    }
    byte_offsets.push_back(text.size());
  }
  void push(char16_t unit, std::size_t byte_offset) {
    units.push_back(unit);
    byte_offsets.push_back(byte_offset);
  }

  std::u16string units;
  std::vector<std::size_t> byte_offsets;
};

/// ICU's \s leaves out vertical tab and U+0085, which Oniguruma's has.
std::string translate(std::string_view pattern) {
  std::string result;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      result.push_back(pattern[i]);
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's' || escaped == 'S') {
      result.append(escaped == 's' ? "\\p{White_Space}" : "\\P{White_Space}");
    } else {
      result.append({'\\', escaped});
    }
  }
  return result;
}

}  // namespace

struct Regex::Compiled {
  /// Calls `on_piece(begin, end, is_match)` for the parts of a well-formed text, in order.
  template <class OnPiece>
  void match(std::string_view text, OnPiece on_piece) const;

  std::string pattern;
  std::unique_ptr<const icu::RegexPattern> program;
  std::optional<detail::WordScanner> scanner;  // does the same for patterns it knows
};

Expected<Regex> Regex::compile(std::string_view pattern) {
  if (valid_utf8_prefix(pattern) != pattern.size()) {
    return unexpected(ErrorCode::parse_error, "regular expression: not UTF-8");
  }
  UErrorCode status = U_ZERO_ERROR;
  UParseError where{};
  const icu::UnicodeString text = icu::UnicodeString::fromUTF8(translate(pattern));
  std::unique_ptr<const icu::RegexPattern> program(icu::RegexPattern::compile(text, 0, where, status));
  if (U_FAILURE(status) || program == nullptr) {
    return unexpected(ErrorCode::parse_error, "regular expression \"" + std::string(pattern) +
                                                  "\": " + u_errorName(status) + " near character " +
                                                  std::to_string(where.offset));
  }
  return Regex(std::make_shared<const Compiled>(
      Compiled{std::string(pattern), std::move(program), detail::WordScanner::for_pattern(pattern)}));
}

template <class OnPiece>
void Regex::Compiled::match(std::string_view text, OnPiece on_piece) const {
  if (scanner) {
    for (std::size_t begin = 0; begin < text.size();) {
      const detail::WordScanner::Piece piece = scanner->scan(text, begin);
      on_piece(begin, piece.end, piece.is_match);
      begin = piece.end;
    }
    return;
  }
  const Utf16Text units(text);
  const icu::UnicodeString alias(/*isTerminated=*/false, units.units.data(),
                                 static_cast<std::int32_t>(units.units.size()));
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<icu::RegexMatcher> matcher(program->matcher(alias, status));
  // The back-tracking stack may grow with the text (runs of a million spaces exist); ICU's default of 8 MB may not do.
  matcher->setStackLimit(0, status);
  std::size_t end = 0;
  while (U_SUCCESS(status) && matcher->find(status)) {
    const std::size_t match_begin = units.byte_offsets[static_cast<std::size_t>(matcher->start(status))];
    const std::size_t match_end = units.byte_offsets[static_cast<std::size_t>(matcher->end(status))];
    if (match_begin > end) {
      on_piece(end, match_begin, false);
    }
    if (match_end > match_begin) {
      on_piece(match_begin, match_end, true);
    }
    end = match_end;
  }
  if (text.size() > end) {
    on_piece(end, text.size(), false);
  }
}

std::vector<Regex::Piece> Regex::pieces(std::string_view text) const {
  std::vector<Piece> result;
  result.reserve(text.size() / 4 + 1);
  for (const auto& stretch : detail::utf8_stretches(text)) {
    const auto base = static_cast<std::size_t>(stretch.bytes.data() - text.data());
    const auto push = [&result, base](std::size_t begin, std::size_t end, bool is_match) {
      result.push_back({{base + begin, base + end}, is_match});
    };
    if (stretch.is_valid) {
      compiled_->match(stretch.bytes, push);
    } else {
      push(0, stretch.bytes.size(), false);
    }
  }
  return result;
}

std::vector<ByteRange> Regex::split(std::string_view text) const {
  const std::vector<Piece> parts = pieces(text);
  std::vector<ByteRange> ranges;
  ranges.reserve(parts.size());
  for (const Piece& piece : parts) {
    ranges.push_back(piece.range);
  }
  return ranges;
}

std::string Regex::replace_all(std::string_view text, std::string_view replacement) const {
  std::string result;
  for (const Piece& piece : pieces(text)) {
    result.append(piece.is_match ? replacement : text.substr(piece.range.begin, piece.range.end - piece.range.begin));
  }
  return result;
}

bool Regex::is_found_in(std::string_view text) const {
  for (const Piece& piece : pieces(text)) {
    if (piece.is_match) {
      return true;
    }
  }
  return false;
}

const std::string& Regex::pattern() const { return compiled_->pattern; }

}  // namespace memopd

#include "runtime/text/word_scanner.hpp"

#include <limits>
#include <utility>

namespace memopd::detail {
namespace {

constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();

bool is_newline(char c) { return c == '\n' || c == '\r'; }

char lower_ascii(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// End of 's, 't, 're, 've, 'm, 'll or 'd at `begin`, or `begin` if there is none.
std::size_t contraction(std::string_view text, std::size_t begin, bool ignores_case) {
  if (text[begin] != '\'' || begin + 1 == text.size()) {
    return begin;
  }
  const auto letter = [&](std::size_t index) {
    const char c = index < text.size() ? text[index] : '\0';
    return ignores_case ? lower_ascii(c) : c;
  };
  const char first = letter(begin + 1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') {
    return begin + 2;
  }
  const char second = letter(begin + 2);
  if (((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l')) {
    return begin + 3;
  }
  // U+017F, the long s, folds to s.
  return ignores_case && text.substr(begin + 1, 2) == "\xC5\xBF" ? begin + 3 : begin;
}

}  // namespace

std::optional<WordScanner> WordScanner::for_pattern(std::string_view pattern) {
  if (pattern == kGpt2Pattern) {
    return WordScanner(Rules::gpt2, kUnlimited);
  }
  if (pattern == kQwen2Pattern || pattern == kLlama3Pattern) {
    return WordScanner(Rules::qwen2, pattern == kQwen2Pattern ? 1 : 3);
  }
  if (pattern == kDigitPattern || pattern == kDigitsPattern) {
    return WordScanner(Rules::digits, pattern == kDigitPattern ? 1 : kUnlimited);
  }
  return std::nullopt;
}

WordScanner::Piece WordScanner::scan(std::string_view text, std::size_t begin) const {
  switch (rules_) {
    case Rules::gpt2:
      return {gpt2(text, begin)};
    case Rules::qwen2:
      return {qwen2(text, begin)};
    case Rules::digits:
      break;
  }
  return digits(text, begin);
}

std::size_t WordScanner::run(std::string_view text, std::size_t begin, CharacterClass kind, std::size_t max) const {
  for (; begin < text.size() && max > 0; --max) {
    const ClassifiedCharacter next = classify(classes_, text, begin);
    if (next.kind != kind) {
      break;
    }
    begin = next.end;
  }
  return begin;
}

std::size_t WordScanner::punctuation(std::string_view text, std::size_t begin) const {
  std::size_t end = run(text, begin, CharacterClass::other, kUnlimited);
  while (end < text.size() && is_newline(text[end])) {
    ++end;
  }
  return end;
}

/// \s*[\r\n]+ if wanted, else \s+(?!\S), else \s+.
std::size_t WordScanner::spaces(std::string_view text, std::size_t begin, bool ends_at_newline) const {
  std::size_t end = begin;
  std::size_t last = begin;  // where the last white space begins
  std::size_t after_newline = begin;
  while (end < text.size()) {
    const ClassifiedCharacter next = classify(classes_, text, end);
    if (next.kind != CharacterClass::space) {
      break;
    }
    last = end;
    after_newline = is_newline(text[end]) ? next.end : after_newline;
    end = next.end;
  }
  if (ends_at_newline && after_newline > begin) {
    return after_newline;
  }
  return end == text.size() || last == begin ? end : last;
}

std::size_t WordScanner::gpt2(std::string_view text, std::size_t begin) const {
  if (const std::size_t end = contraction(text, begin, /*ignores_case=*/false); end > begin) {
    return end;
  }
  ClassifiedCharacter first = classify(classes_, text, begin);
  if (text[begin] == ' ' && first.end < text.size()) {
    const ClassifiedCharacter second = classify(classes_, text, first.end);
    first = second.kind == CharacterClass::space ? first : second;
  }
  return first.kind == CharacterClass::space ? spaces(text, begin, /*ends_at_newline=*/false)
                                             : run(text, first.end, first.kind, kUnlimited);
}

std::size_t WordScanner::qwen2(std::string_view text, std::size_t begin) const {
  if (const std::size_t end = contraction(text, begin, /*ignores_case=*/true); end > begin) {
    return end;
  }
  const ClassifiedCharacter first = classify(classes_, text, begin);
  if (first.kind == CharacterClass::letter) {
    return run(text, first.end, CharacterClass::letter, kUnlimited);
  }
  if (first.kind == CharacterClass::number) {
    return run(text, first.end, CharacterClass::number, max_numbers_ - 1);
  }
  if (!is_newline(text[begin]) && first.end < text.size()) {
    const ClassifiedCharacter second = classify(classes_, text, first.end);
    if (second.kind == CharacterClass::letter) {
      return run(text, second.end, CharacterClass::letter, kUnlimited);
    }
    if (text[begin] == ' ' && second.kind == CharacterClass::other) {
      return punctuation(text, second.end);
    }
  }
  return first.kind == CharacterClass::other ? punctuation(text, first.end)
                                             : spaces(text, begin, /*ends_at_newline=*/true);
}

WordScanner::Piece WordScanner::digits(std::string_view text, std::size_t begin) const {
  if (const std::size_t end = run(text, begin, CharacterClass::number, max_numbers_); end > begin) {
    return {end, true};
  }
  std::size_t end = begin;
  while (end < text.size()) {
    const ClassifiedCharacter next = classify(classes_, text, end);
    if (next.kind == CharacterClass::number) {
      break;
    }
    end = next.end;
  }
  return {end, false};
}

}  // namespace memopd::detail

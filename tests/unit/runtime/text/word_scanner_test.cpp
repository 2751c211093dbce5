#include "runtime/text/word_scanner.hpp"

#include <catch2/catch.hpp>

#include "runtime/base/random.hpp"
#include "runtime/text/regex.hpp"

namespace memopd {
namespace {

constexpr std::string_view kPatterns[] = {kGpt2Pattern, kQwen2Pattern, kLlama3Pattern, kDigitPattern, kDigitsPattern};

Regex compiled(const std::string& pattern) {
  auto regex = Regex::compile(pattern);
  REQUIRE(regex);
  return *regex;
}

/// Characters where the rules meet: letters, marks, numbers, white space and newlines of one to four bytes, contractions.
std::string random_text(SplitMix& random) {
  const std::vector<std::string> parts = {" ",      " ",      "\n",     "\r",  "\t",  "\v", "\u0085",  "\u00a0",
                                          "\u2028", "\u3000", "a",      "B",   "é",   "я",  "中",      "𐐀",
                                          "1",      "٣",      "½",      "Ⅷ",   "𝟘",   ".",  "!",       "_",
                                          "'",      "'",      "'s",     "'LL", "'Ve", "'r", "'\u017f", "\u0301",
                                          "\u200d", "😀",      "\u0378", "x",   "e",   "d",  "\xFF",    "\xC3"};
  std::string text;
  for (std::uint64_t left = random.below(24) + 1; left > 0; --left) {
    text += parts[random.below(parts.size())];
  }
  return text;
}

TEST_CASE("a known pattern cuts every text where the regular expression does", "[text][WS-1]") {
  SplitMix random(5);
  for (const std::string_view pattern : kPatterns) {
    REQUIRE(detail::WordScanner::for_pattern(pattern));
    const std::string grouped = "(?:" + std::string(pattern) + ")";  // the same language, for the engine
    REQUIRE_FALSE(detail::WordScanner::for_pattern(grouped));
    const Regex scanner = compiled(std::string(pattern));
    const Regex engine = compiled(grouped);
    for (int round = 0; round < 3000; ++round) {
      const std::string text = random_text(random);
      INFO(pattern << " on " << text);
      REQUIRE(scanner.split(text) == engine.split(text));
    }
  }
}

TEST_CASE("digits are matches and what lies between is not", "[text][WS-1]") {
  CHECK(compiled(std::string(kDigitPattern)).replace_all("a12b", "#") == "a##b");
  CHECK(compiled(std::string(kDigitsPattern)).replace_all("a12b", "#") == "a#b");
}

TEST_CASE("letters and numbers of Unicode 15.1 and 16 are known", "[text]") {
  const auto kind_of = [](const std::string& text) { return classify(character_classes(), text, 0).kind; };

  CHECK(kind_of("\U0002EBF0") == CharacterClass::letter);
  CHECK(kind_of("\U00016D70") == CharacterClass::number);
  CHECK(kind_of("\u0085") == CharacterClass::space);
  CHECK(kind_of("\u200b") == CharacterClass::other);
  CHECK(kind_of("\U0010FFFF") == CharacterClass::other);
}

}  // namespace
}  // namespace memopd

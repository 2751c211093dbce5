#include "runtime/text/unicode.hpp"

#include <catch2/catch.hpp>

namespace memopd {
namespace {

TEST_CASE("NFC composes, NFKC also replaces compatibility characters", "[text]") {
  CHECK(normalize("e\u0301", NormalForm::nfc) == "\u00e9");
  CHECK(normalize("\ufb01\uff21\u2460", NormalForm::nfc) == "\ufb01\uff21\u2460");
  CHECK(normalize("\ufb01\uff21\u2460", NormalForm::nfkc) == "fiA1");
  CHECK(normalize("e\u0301", NormalForm::none) == "e\u0301");
}

TEST_CASE("bytes that are not UTF-8 pass through normalisation and lower case", "[text][error]") {
  CHECK(normalize("e\u0301\xFF\xC3", NormalForm::nfc) == "\u00e9\xFF\xC3");
  CHECK(lower_case("\xFFÉ\xE2\x82") == "\xFFé\xE2\x82");
}

TEST_CASE("lower case covers all scripts and does not depend on the locale", "[text]") {
  CHECK(lower_case("ÅΣЖ I") == "åσж i");
  CHECK(lower_case("İ") == "i\u0307");
}

TEST_CASE("the valid prefix ends where the first ill-formed byte begins", "[text]") {
  CHECK(valid_utf8_prefix("") == 0);
  CHECK(valid_utf8_prefix("aé") == 3);
  CHECK(valid_utf8_prefix("aé\xFFz") == 3);
  CHECK(valid_utf8_prefix("a\xE2\x82") == 1);
}

TEST_CASE("an incomplete suffix is the start of a character and nothing else", "[text]") {
  CHECK(incomplete_utf8_suffix("") == 0);
  CHECK(incomplete_utf8_suffix("a€") == 0);
  CHECK(incomplete_utf8_suffix("a\xE2") == 1);
  CHECK(incomplete_utf8_suffix("a\xE2\x82") == 2);
  CHECK(incomplete_utf8_suffix("a\xF0\x9F\x98") == 3);
  CHECK(incomplete_utf8_suffix("a\xFF") == 0);      // begins no character
  CHECK(incomplete_utf8_suffix("a\xED\xA0") == 0);  // a surrogate: can never be completed
  CHECK(incomplete_utf8_suffix("a\x80\x80") == 0);  // continues nothing
}

TEST_CASE("each maximal ill-formed part becomes one replacement character", "[text]") {
  CHECK(replace_invalid_utf8("a\xFF\xFF") == "a\uFFFD\uFFFD");
  CHECK(replace_invalid_utf8("\xE2\x82z") == "\uFFFDz");
  CHECK(replace_invalid_utf8("é") == "é");
}

TEST_CASE("strip removes ASCII white space at both ends only", "[text]") {
  CHECK(strip(" \n a b\t\r") == "a b");
  CHECK(strip(" \t ") == "");
}

TEST_CASE("Unicode 9 neither composes nor reorders what was assigned later", "[text]") {
  CHECK(normalize_unicode9("e\u0301", NormalForm::nfc) == "\u00e9");
  // U+1DFA (Unicode 14) has class 218, U+0301 class 230: today's tables put it first.
  CHECK(normalize_unicode9("x\u0301\u1DFA", NormalForm::nfc) == "x\u0301\u1DFA");
  CHECK(normalize("x\u0301\u1DFA", NormalForm::nfc) == "x\u1DFA\u0301");
}

TEST_CASE("strip_unicode takes away what Python's strip does", "[text]") {
  CHECK(strip_unicode("\u3000 \x1F\n a b\u00a0\u2028\x1C") == "a b");
  CHECK(strip_unicode(" \xFF ") == "\xFF");  // a stray byte is no space
  CHECK(strip_unicode("\u200b") == "\u200b");
  CHECK(strip_unicode("\t ").empty());
}

TEST_CASE("first and last characters are whole or none", "[text][error]") {
  CHECK(first_character("😀a") == "😀");
  CHECK(last_character("a😀") == "😀");
  CHECK(first_character("\x80 a").empty());
  CHECK(last_character("a\xE4\xB8").empty());
  CHECK(last_character("\xFF\x80").empty());
  CHECK(last_character("").empty());
}

}  // namespace
}  // namespace memopd

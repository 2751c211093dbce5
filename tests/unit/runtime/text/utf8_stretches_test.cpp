#include "runtime/text/utf8_stretches.hpp"

#include <catch2/catch.hpp>
#include <string>

namespace memopd::detail {
namespace {

/// Invalid stretches in angle brackets.
std::string show(std::string_view text) {
  std::string shown;
  for (const Utf8Stretch& stretch : utf8_stretches(text)) {
    shown += (stretch.is_valid ? "(" : "<") + std::string(stretch.bytes) + (stretch.is_valid ? ")" : ">");
  }
  return shown;
}

TEST_CASE("stretches alternate between UTF-8 and other bytes and lose none", "[text]") {
  CHECK(show("") == "");
  CHECK(show("abc\xC3\xA9") == "(abc\xC3\xA9)");
  CHECK(show("\xFF\xFE") == "<\xFF\xFE>");
  CHECK(show("a\x80\xC3"
             "b") == "(a)<\x80\xC3>(b)");
}

TEST_CASE("overlong forms, surrogates and code points past U+10FFFF are not UTF-8", "[text]") {
  for (const char* bytes : {"\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                            "\xF4\x90\x80\x80", "\xF5\x80\x80\x80"}) {
    CHECK(show(bytes) == "<" + std::string(bytes) + ">");
  }
  for (const char* bytes :
       {"\xC2\x80", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    CHECK(show(bytes) == "(" + std::string(bytes) + ")");
  }
}

TEST_CASE("text is ASCII iff every byte is below 0x80", "[text]") {
  CHECK(is_ascii(""));
  CHECK(is_ascii("a\x7F"));
  CHECK_FALSE(is_ascii("a\x80"));
}

}  // namespace
}  // namespace memopd::detail

#include "runtime/text/regex.hpp"

#include <catch2/catch.hpp>

namespace memopd {
namespace {

Regex regex(std::string_view pattern) {
  auto compiled = Regex::compile(pattern);
  REQUIRE(compiled);
  return *compiled;
}

using Strings = std::vector<std::string>;

Strings split(std::string_view pattern, std::string_view text) {
  Strings parts;
  for (const ByteRange& range : regex(pattern).split(text)) {
    parts.emplace_back(text.substr(range.begin, range.end - range.begin));
  }
  return parts;
}

TEST_CASE("split returns matches and the stretches between them", "[text]") {
  CHECK(split("b+", "abbcb") == Strings{"a", "bb", "c", "b"});
  CHECK(split("x", "abc") == Strings{"abc"});
  CHECK(split("x", "").empty());
  CHECK(split("x*", "axa") == Strings{"a", "x", "a"});  // empty matches make no pieces
}

TEST_CASE("offsets are bytes also behind characters of two, three and four bytes", "[text]") {
  CHECK(split("\\p{L}+", "é東😀x") == Strings{"é東", "😀", "x"});
}

TEST_CASE("white space is the Unicode property, in and outside of sets", "[text]") {
  CHECK(split("\\s+", "a\v\u0085\u00a0b") == Strings{"a", "\v\u0085\u00a0", "b"});
  CHECK(split("[^\\s]+", "a\u0085b") == Strings{"a", "\u0085", "b"});
  CHECK(split("\\S", "a\v") == Strings{"a", "\v"});
  CHECK(split("\\\\s", "a\\s") == Strings{"a", "\\s"});  // an escaped backslash, then a letter
}

TEST_CASE("bytes that are not UTF-8 are pieces of their own", "[text][error]") {
  CHECK(split(".+",
              "ab\xFF\xFE"
              "c\xC3") == Strings{"ab", "\xFF\xFE", "c", "\xC3"});
}

TEST_CASE("a run of a million spaces is split", "[text]") {
  const std::string text = std::string(1000000, ' ') + "x";
  const auto parts = regex("\\s+(?!\\S)|\\s+").split(text);
  REQUIRE(parts.size() == 3);
  CHECK(parts[0] == ByteRange{0, 999999});
}

TEST_CASE("replace_all takes the replacement literally", "[text]") {
  CHECK(regex("\\p{P}").replace_all("a.b!", "$1") == "a$1b$1");
  CHECK(regex("\\p{P}").is_found_in("a."));
  CHECK_FALSE(regex("\\p{P}").is_found_in("a"));
}

TEST_CASE("a pattern that is none is an error that shows it", "[text][error]") {
  const auto broken = Regex::compile("a(b");
  REQUIRE_FALSE(broken);
  CHECK(broken.error().code == ErrorCode::parse_error);
  CHECK(broken.error().message.find("a(b") != std::string::npos);
  CHECK_FALSE(Regex::compile("\xFF"));
}

}  // namespace
}  // namespace memopd

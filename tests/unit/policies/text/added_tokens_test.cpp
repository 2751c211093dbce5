#include "policies/text/added_tokens.hpp"

#include <catch2/catch.hpp>

namespace memopd {
namespace {

TEST_CASE("the leftmost added token wins, then the longest", "[tokenizer]") {
  AddedTokenMatcher matcher;
  matcher.add("ab", 1);
  matcher.add("abcd", 2);
  matcher.add("bcde", 3);

  const auto longest = matcher.find("xabcde", 0);
  REQUIRE(longest);
  CHECK(longest->begin == 1);
  CHECK(longest->end == 5);
  CHECK(longest->id == 2);
  CHECK(matcher.find("xabce", 0)->id == 1);   // the longer one is not finished
  CHECK(matcher.find("xabcde", 2)->id == 3);  // from the middle of another
  CHECK_FALSE(matcher.find("xabcde", 3));
}

TEST_CASE("a matcher without tokens finds nothing", "[tokenizer]") { CHECK_FALSE(AddedTokenMatcher().find("abc", 0)); }

}  // namespace
}  // namespace memopd

#include "policies/text/added_tokens.hpp"

#include <catch2/catch.hpp>
#include <deque>

namespace memopd {
namespace {

using Strings = std::vector<std::string>;

/// What `text` is cut into: stretches in quotes, tokens by id.
Strings cut(const std::deque<AddedToken>& tokens, std::string_view text, bool special_tokens = true) {
  AddedTokenMatcher matcher;
  for (const AddedToken& token : tokens) {
    matcher.add(token.content, token);
  }
  Strings parts;
  matcher.split(
      text, special_tokens, [&](std::string_view stretch) { parts.push_back("'" + std::string(stretch) + "'"); },
      [&](std::int32_t id) { parts.push_back(std::to_string(id)); });
  return parts;
}

TEST_CASE("the leftmost added token wins, then the longest", "[tokenizer][AT-1]") {
  const std::deque<AddedToken> tokens = {{1, "ab"}, {2, "abcd"}, {3, "bcde"}};

  CHECK(cut(tokens, "xabcde") == Strings{"'x'", "2", "'e'"});
  CHECK(cut(tokens, "xabce") == Strings{"'x'", "1", "'ce'"});  // the longer one is not finished
  CHECK(cut(tokens, "xbcde") == Strings{"'x'", "3"});
}

TEST_CASE("a matcher without tokens finds nothing", "[tokenizer]") {
  CHECK(cut({}, "abc") == Strings{"'abc'"});
  CHECK(cut({}, "").empty());
}

TEST_CASE("a special token that is not wanted is text, and hides what overlaps it", "[tokenizer][AT-1]") {
  const std::deque<AddedToken> tokens = {{1, "<|a|>", /*is_special=*/true}, {2, "|>b"}, {3, "b"}};

  CHECK(cut(tokens, "<|a|>b") == Strings{"1", "3"});
  CHECK(cut(tokens, "<|a|>b", /*special_tokens=*/false) == Strings{"'<|a|>'", "3"});
  CHECK(cut(tokens, "|>b", /*special_tokens=*/false) == Strings{"2"});
}

TEST_CASE("a single word is found only where no word touches it", "[tokenizer][AT-1]") {
  AddedToken token{1, "the"};
  token.is_single_word = true;

  CHECK(cut({token}, "the (the) other") == Strings{"1", "' ('", "1", "') other'"});
  CHECK(cut({token}, "theé _the the\u0301 9the") == Strings{"'theé _the the\u0301 9the'"});
  CHECK(cut({token}, "\xFFthe\xFF") == Strings{"'\xFF'", "1", "'\xFF'"});  // a stray byte is no word
}

TEST_CASE("a token that strips takes the white space beside it, and none that is already given", "[tokenizer][AT-2]") {
  AddedToken left{1, "<l>"};
  left.strips_left = true;
  AddedToken right{2, "<r>"};
  right.strips_right = true;

  CHECK(cut({left, right}, "a \u3000\t<l> b") == Strings{"'a'", "1", "' b'"});
  CHECK(cut({left, right}, "a <r> \u00a0\nb") == Strings{"'a '", "2", "'b'"});
  CHECK(cut({left, right}, "<r>  <l>") == Strings{"2", "1"});
  CHECK(cut({left, right}, "\x80 <l>") == Strings{"'\x80'", "1"});
}

}  // namespace
}  // namespace memopd

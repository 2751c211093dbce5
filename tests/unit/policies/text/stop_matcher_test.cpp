#include "policies/text/stop_matcher.hpp"

#include <catch2/catch.hpp>

namespace memopd {
namespace {

TEST_CASE("a stop string is found at the token that completes it, across any borders", "[protocol]") {
  StopMatcher matcher({"</search>", "</answer>"});
  CHECK_FALSE(matcher.push("a <"));
  CHECK_FALSE(matcher.push("/sea"));
  CHECK_FALSE(matcher.push("rch"));
  CHECK(matcher.push("> and more"));
}

TEST_CASE("byte by byte, only the last byte of the stop string matches", "[protocol]") {
  StopMatcher matcher({"</search>"});
  const std::string text = "x</searc</search>y";
  for (std::size_t i = 0; i < text.size(); ++i) {
    CHECK(matcher.push(text.substr(i, 1)) == (i == 16));
  }
}

TEST_CASE("a stop string inside one token is found, and reported once", "[protocol]") {
  StopMatcher matcher({"stop", "p-and-more-text"});
  CHECK(matcher.push("astopb"));
  CHECK_FALSE(matcher.push("c"));
}

TEST_CASE("a short stop string is not found again in what a longer one keeps", "[protocol]") {
  StopMatcher matcher({"b", "0123456789"});
  CHECK(matcher.push("ab"));
  CHECK_FALSE(matcher.push("c"));
  CHECK(matcher.push("b"));
}

TEST_CASE("reset forgets an unfinished stop string", "[protocol]") {
  StopMatcher matcher({"ab"});
  CHECK_FALSE(matcher.push("a"));
  matcher.reset();
  CHECK_FALSE(matcher.push("b"));
}

TEST_CASE("without stop strings, or with empty ones, nothing stops", "[protocol]") {
  CHECK_FALSE(StopMatcher({}).push("a"));
  CHECK_FALSE(StopMatcher({""}).push("a"));
}

}  // namespace
}  // namespace memopd

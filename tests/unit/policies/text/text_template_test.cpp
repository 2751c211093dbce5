#include "policies/text/text_template.hpp"

#include <catch2/catch.hpp>

namespace memopd {
namespace {

TEST_CASE("placeholders are filled, other braces stay", "[protocol]") {
  CHECK(fill_template("{a}-{b}-{c}-{", {{"a", "1"}, {"b", "2"}}) == "1-2-{c}-{");
  CHECK(fill_template("{ab}{a}", {{"a", "1"}}) == "{ab}1");
}

TEST_CASE("what was filled in is not looked at again", "[protocol]") {
  CHECK(fill_template("{a}{b}", {{"a", "{b}"}, {"b", "{a}"}}) == "{b}{a}");
}

TEST_CASE("a document shows its number, title and text", "[protocol]") {
  CHECK(format_document("Doc {k}(Title: {title}) {text}\n", 2, "Kenya", "A country.") ==
        "Doc 2(Title: Kenya) A country.\n");
}

}  // namespace
}  // namespace memopd

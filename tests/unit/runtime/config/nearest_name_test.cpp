#include <catch2/catch.hpp>

#include "runtime/config/field_table.hpp"

using memopd::detail::nearest_name;

TEST_CASE("the nearest name counts one edit for a swap of neighbours", "[config]") {
  CHECK(nearest_name("cofe", {"coef", "code"}).value_or("") == "coef");
  CHECK(nearest_name("lamda", {"gamma", "lambda"}).value_or("") == "lambda");
}

TEST_CASE("a name that needs more edits than a third of its letters has no nearest name", "[config]") {
  CHECK_FALSE(nearest_name("foobar", {"every", "keep"}));
  CHECK_FALSE(nearest_name("", {"a"}));
  CHECK_FALSE(nearest_name(std::string(5000, 'a'), {"aaaa"}));
}

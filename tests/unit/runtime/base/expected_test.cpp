#include "runtime/base/expected.hpp"

#include <catch2/catch.hpp>
#include <memory>
#include <set>
#include <string>

using namespace memopd;

namespace {

Expected<int> half(int value) {
  if (value % 2 != 0) {
    return unexpected(ErrorCode::invalid_argument, "value " + std::to_string(value) + ": allowed even numbers");
  }
  return value / 2;
}

Expected<std::string> half_as_text(int value) {
  MEMOPD_RETURN_IF_ERROR(half(value));
  return std::to_string(*half(value));
}

}  // namespace

TEST_CASE("an Expected holds its value or its error", "[base][error]") {
  REQUIRE(half(8));
  CHECK(*half(8) == 4);
  CHECK(half(8).value_or(-1) == 4);

  const auto failed = half(7);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == ErrorCode::invalid_argument);
  CHECK(failed.error().message == "value 7: allowed even numbers");
  CHECK(failed.value_or(-1) == -1);
}

TEST_CASE("MEMOPD_RETURN_IF_ERROR hands the error on and passes success", "[base][error]") {
  CHECK(*half_as_text(8) == "4");
  REQUIRE_FALSE(half_as_text(7));
  CHECK(half_as_text(7).error().message == "value 7: allowed even numbers");
}

TEST_CASE("an Expected without a value is success until it holds an error", "[base][error]") {
  CHECK(Expected<void>().has_value());
  const Expected<void> failed = unexpected(ErrorCode::io_error, "disk full");
  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == ErrorCode::io_error);
}

TEST_CASE("a value that can only be moved moves out of an Expected", "[base]") {
  Expected<std::unique_ptr<int>> made(std::make_unique<int>(3));
  const std::unique_ptr<int> taken = *std::move(made);
  CHECK(*taken == 3);
}

TEST_CASE("every error code has a name of its own", "[base][error]") {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(ErrorCode::internal); ++code) {
    names.insert(to_string(static_cast<ErrorCode>(code)));
  }
  CHECK(names.size() == static_cast<std::size_t>(ErrorCode::internal) + 1);
  CHECK(names.count("unknown") == 0);
}

#include "envs/options.hpp"

#include <catch2/catch.hpp>

namespace memopd {
namespace {

const std::vector<OptionSpec> kSpecs = {{"fictional", "0", ""}, {"topk", "3", ""}, {"titles", "false", ""}};

TEST_CASE("nearest_name finds the name with the fewest edits and nothing when all are far", "[options]") {
  const std::vector<std::string> known = {"em", "fictional", "titles"};
  CHECK(nearest_name("fictionl", known) == "fictional");
  CHECK(nearest_name("title", known) == "titles");
  CHECK(nearest_name("temperature", known).empty());
}

TEST_CASE("complete_options fills defaults in and keeps what is set", "[options]") {
  const auto options = complete_options("atlas", kSpecs, {.options = {{"topk", "1"}}});
  REQUIRE(options);
  CHECK(options->options == std::map<std::string, std::string>{{"fictional", "0"}, {"titles", "false"}, {"topk", "1"}});
}

TEST_CASE("complete_options names every unknown key and the nearest known one", "[options][pain:T31][error]") {
  const auto options = complete_options("atlas", kSpecs, {.options = {{"fictionl", "1"}, {"zzzzzzz", "1"}}});
  REQUIRE_FALSE(options);
  CHECK(options.error().code == ErrorCode::invalid_argument);
  CHECK(options.error().message ==
        "environment atlas: unknown option fictionl, did you mean fictional; "
        "unknown option zzzzzzz, known are: fictional, topk, titles");
}

TEST_CASE("option values outside their range are refused with key, value and range", "[options][error]") {
  const EnvOptions options{.options = {{"a", "1.5"}, {"b", "7"}, {"c", "yes"}, {"d", "nan"}, {"e", "3x"}}};
  CHECK(option_number(options, "a", 0, 2).value() == 1.5);
  CHECK(option_number(options, "a", 0, 1).error().message == "option a = `1.5`: allowed is a number in 0..1");
  CHECK(option_integer(options, "b", 0, 7).value() == 7);
  CHECK_FALSE(option_integer(options, "b", 0, 6));
  CHECK_FALSE(option_integer(options, "a", 0, 6));
  CHECK_FALSE(option_number(options, "d", 0, 6));
  CHECK_FALSE(option_integer(options, "e", 0, 6));
  CHECK(option_flag(options, "c").error().message == "option c = `yes`: allowed are true and false");
}

}  // namespace
}  // namespace memopd

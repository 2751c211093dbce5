#include "policies/engine/request_checks.hpp"

#include <catch2/catch.hpp>
#include <limits>

using namespace memopd;

namespace {

constexpr RequestLimits kLimits{.vocab_size = 10, .max_context_tokens = 4, .has_tokenizer = true};

Error error_of(const GenerateRequest& request, const RequestLimits& limits = kLimits) {
  const auto checked = check_request(request, limits);
  REQUIRE_FALSE(checked);
  return checked.error();
}

}  // namespace

TEST_CASE("a request may fill the context up to its last token", "[engine]") {
  CHECK(check_request({.request_id = 1, .prompt_token_ids = {0, 9, 1}}, kLimits));
}

TEST_CASE("a request outside its ranges is refused by name", "[engine][error]") {
  CHECK(error_of({.request_id = 1}).code == ErrorCode::invalid_argument);
  CHECK_THAT(error_of({.request_id = 7, .prompt_token_ids = {10}}).message,
             Catch::Contains("request 7") && Catch::Contains("id 10"));
  CHECK(error_of({.request_id = 1, .prompt_token_ids = {-1}}).code == ErrorCode::invalid_argument);
  CHECK(error_of({.request_id = 1, .prompt_token_ids = {1, 2, 3, 4}}).code == ErrorCode::invocation_too_long);
  CHECK_THAT(error_of({.prompt_token_ids = {1}, .stop_strings = {"a", ""}}).message, Catch::Contains("stop string"));
  CHECK_THAT(
      error_of({.prompt_token_ids = {1}, .stop_strings = {"a"}}, {.vocab_size = 10, .max_context_tokens = 4}).message,
      Catch::Contains("tokenizer"));
}

TEST_CASE("sampling outside its ranges is refused by name", "[engine][error]") {
  const auto message = [](const Sampling& sampling) {
    return error_of({.prompt_token_ids = {1}, .sampling = sampling}).message;
  };
  using Catch::Contains;
  CHECK_THAT(message({.temperature = -1}), Contains("temperature"));
  CHECK_THAT(message({.temperature = 1e-9}), Contains("temperature"));
  CHECK_THAT(message({.temperature = std::numeric_limits<double>::quiet_NaN()}), Contains("temperature"));
  CHECK_THAT(message({.top_p = 0}), Contains("top_p"));
  CHECK_THAT(message({.top_p = 1.5}), Contains("top_p"));
  CHECK_THAT(message({.top_k = -1}), Contains("top_k"));
  CHECK_THAT(message({.min_p = 1}), Contains("min_p"));
  CHECK_THAT(message({.max_response_tokens = 0}), Contains("max_response_tokens"));
}

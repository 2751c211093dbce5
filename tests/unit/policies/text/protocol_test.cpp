#include "policies/text/protocol.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/policies/text/toy_tokenizers.hpp"

namespace memopd {
namespace {

std::string config_problem(const ProtocolConfig& config) {
  const auto protocol = make_protocol(config, testing::toy_tokenizer(), "");
  REQUIRE_FALSE(protocol);
  CHECK(protocol.error().code == ErrorCode::config_error);
  return protocol.error().message;
}

TEST_CASE("the default configuration makes a mem1 protocol", "[protocol]") {
  const auto protocol = make_protocol(ProtocolConfig{}, testing::toy_tokenizer(), "");

  REQUIRE(protocol);
  CHECK((*protocol)->stop_strings() == std::vector<std::string>{"</search>", "</answer>"});
}

TEST_CASE("settings that no protocol can honour are refused by name", "[protocol][error]") {
  ProtocolConfig config;
  config.name = "mem9";
  CHECK(config_problem(config).find("protocol.name \"mem9\"") != std::string::npos);

  config = {};
  config.chat_template = "jinja";
  CHECK(config_problem(config).find("protocol.chat_template \"jinja\"") != std::string::npos);

  config = {};
  config.question = "Question:";
  CHECK(config_problem(config).find("protocol.question") != std::string::npos);

  config = {};
  config.observation = "{documents}{documents}";
  CHECK(config_problem(config).find("protocol.observation") != std::string::npos);

  config = {};
  config.document = "{title}";
  CHECK(config_problem(config).find("protocol.document") != std::string::npos);

  config = {};
  config.max_observation_tokens = 8;
  CHECK(config_problem(config).find("protocol.max_observation_tokens 8") != std::string::npos);
}

}  // namespace
}  // namespace memopd

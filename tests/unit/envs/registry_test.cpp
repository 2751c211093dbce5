#include "envs/registry.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "envs/examples/guess_word.hpp"

namespace memopd {
namespace {

EnvironmentDefinition late_definition() {
  EnvironmentDefinition definition;
  definition.name = "registered_by_macro";
  definition.make_environment = [](const EnvOptions&) -> Expected<std::unique_ptr<Environment>> {
    return std::unique_ptr<Environment>(std::make_unique<examples::GuessWord>(0.0));
  };
  return definition;
}
MEMOPD_REGISTER_ENVIRONMENT(late, late_definition());

TEST_CASE("the environments of the folder are known without any call, beside one registered from a test",
          "[registry]") {
  const auto names = environment_names();
  for (const std::string name : {"atlas", "guess_word", "registered_by_macro"}) {
    CAPTURE(name);
    CHECK(std::count(names.begin(), names.end(), name) == 1);
  }
  CHECK(make_environment("registered_by_macro", {}).has_value());
}

TEST_CASE("an unknown environment is an error that names the nearest", "[registry][pain:T31][error]") {
  const auto environment = make_environment("atlsa", {});
  REQUIRE_FALSE(environment);
  CHECK(environment.error().code == ErrorCode::not_found);
  CHECK(environment.error().message.find("unknown environment `atlsa`, did you mean atlas") == 0);
}

TEST_CASE("an unknown option is refused whatever part of the environment is asked for", "[registry][error]") {
  const EnvOptions options{.options = {{"fictionl", "0.5"}}};
  CHECK(make_environment("atlas", options).error().code == ErrorCode::invalid_argument);
  CHECK(make_task_source("atlas", options).error().code == ErrorCode::invalid_argument);
  CHECK(make_expert("atlas", options).error().code == ErrorCode::invalid_argument);
  CHECK(environment_corpus("atlas", options).error().code == ErrorCode::invalid_argument);
}

TEST_CASE("parts that an environment does not have are unsupported", "[registry][error]") {
  CHECK(make_expert("registered_by_macro", {}).error().code == ErrorCode::unsupported);
  CHECK(make_task_source("registered_by_macro", {}).error().code == ErrorCode::unsupported);
  CHECK(environment_corpus("guess_word", {}).error().message ==
        "environment guess_word has no documents of its own; give a corpus file");
}

TEST_CASE("a name is registered once and has to be a name", "[registry][error]") {
  CHECK(register_environment(late_definition()).error().code == ErrorCode::already_exists);
  EnvironmentDefinition nameless = late_definition();
  nameless.name = "Not A Name";
  CHECK(register_environment(nameless).error().code == ErrorCode::invalid_argument);
  EnvironmentDefinition empty;
  empty.name = "no_factory";
  CHECK(register_environment(empty).error().code == ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace memopd

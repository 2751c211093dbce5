#include "envs/examples/guess_word.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/envs/scripted_play.hpp"

namespace memopd::examples {
namespace {

using testing::must;

Task task_of(const std::string& secret) {
  Task task;
  task.text = "Which word is it?";
  task.targets = {{secret}};
  return task;
}

TEST_CASE("a guess is told on which side of it the secret lies", "[guess_word]") {
  GuessWord environment(0.25);
  REQUIRE(environment.reset(task_of("grove"), 0));
  const auto guess = [&](const std::string& word) { return must(environment.step({ActionKind::search, word, ""})); };
  CHECK(guess(" heron").observation == "before heron");
  CHECK(guess("fjord").observation == "after fjord");
  CHECK(guess("grove").observation == "right: grove");
  CHECK(guess("grove").reward == 0.25);
  CHECK(guess("oak").observation == "`oak` is not in the list");
}

TEST_CASE("an answer is worth 1 when right, and the sixth turn is the last", "[guess_word]") {
  GuessWord environment(0);
  REQUIRE(environment.reset(task_of("grove"), 0));
  CHECK(must(environment.step({ActionKind::answer, " grove", ""})).reward == 1);
  REQUIRE(environment.reset(task_of("grove"), 0));
  for (int i = 0; i < 5; ++i) {
    CHECK_FALSE(must(environment.step({ActionKind::search, "heron", ""})).is_done);
  }
  CHECK(must(environment.step({ActionKind::search, "heron", ""})).is_done);
}

TEST_CASE("the scripted policy finds every word", "[guess_word]") {
  const auto expert = must(make_expert("guess_word", {}));
  const auto source = must(make_task_source("guess_word", {}));
  GuessWord environment(0);
  for (const Task& task : must(source->tasks({.split = "train", .seed = 2, .count = 200}))) {
    const auto played = testing::play(environment, *expert, nullptr, task, 0, 1);
    CAPTURE(task.targets[0][0], played.calls.back().response);
    CHECK(played.is_done);
    CHECK(played.last.reward == 1);
  }
}

TEST_CASE("contexts and options that are not of this environment are errors", "[guess_word][error]") {
  const auto expert = must(make_expert("guess_word", {}));
  CHECK(expert->respond("", "nonsense").error().code == ErrorCode::invalid_argument);
  CHECK(expert->respond("", "<think> from opal up to amber</think><search> dune</search> before dune").error().code ==
        ErrorCode::invalid_argument);
  CHECK(make_environment("guess_word", {.options = {{"hint_reward", "2"}}}).error().code ==
        ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace memopd::examples

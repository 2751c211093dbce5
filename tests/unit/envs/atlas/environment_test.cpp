#include "envs/atlas/environment.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/envs/scripted_play.hpp"

namespace memopd::atlas {
namespace {

using testing::must;

Task kenya_task() {
  Task task;
  task.id = "t";
  task.split = "train";
  task.text = "What is the capital of the country of Turkana?; Which country is Cologne in?";
  task.targets = {{"Nairobi"}, {"Germany", "Federal Republic of Germany"}};
  task.max_turns = 6;
  return task;
}

Action search(const std::string& query) { return {ActionKind::search, query, ""}; }
Action answer(const std::string& text) { return {ActionKind::answer, text, ""}; }

TEST_CASE("the question is shown bare and a search becomes a retrieve call", "[atlas]") {
  AtlasEnvironment environment({});
  const Turn first = must(environment.reset(kenya_task(), 1));
  CHECK(first.observation == "What is the capital of the country of Turkana?; Which country is Cologne in?");
  CHECK_FALSE(first.is_done);
  const Turn turn = must(environment.step(search("  Turkana country\n")));
  REQUIRE(turn.tool_call);
  CHECK(turn.tool_call->tool == "retrieve");
  CHECK(turn.tool_call->query == "Turkana country");
  CHECK(turn.observation.empty());
}

TEST_CASE("documents are shown as their text after a space, one a line, up to topk", "[atlas]") {
  const ToolResult found{{{"1", "A", "A is a city in B.", 1}, {"2", "C", "C is a city in D.", 0.5}}};
  const auto observe = [&](const AtlasOptions& options) {
    AtlasEnvironment environment(options);
    REQUIRE(environment.reset(kenya_task(), 1));
    REQUIRE(environment.step(search("A")));
    return must(environment.tool_result(found)).observation;
  };
  CHECK(observe({}) == " A is a city in B.\n C is a city in D.");
  CHECK(observe({.topk = 1}) == " A is a city in B.");
  CHECK(observe({.titles = true}) == "Doc 1(Title: \"A\") A is a city in B.\nDoc 2(Title: \"C\") C is a city in D.");
}

TEST_CASE("an answer ends the trajectory with its scores and the chosen reward", "[atlas]") {
  const auto reward = [](Scorer scorer) {
    AtlasEnvironment environment({.scorer = scorer});
    REQUIRE(environment.reset(kenya_task(), 1));
    const Turn turn = must(environment.step(answer(" Nairobi; Federal Germany")));
    CHECK(turn.is_done);
    CHECK(turn.metrics.at("em") == 0.5);
    CHECK(turn.metrics.at("em_sum") == 1.0);
    CHECK(turn.metrics.at("searches") == 0);
    return turn.reward;
  };
  CHECK(reward(Scorer::em) == 0.5);
  // {federal, germany} shares one word with {germany} and two with {federal, republic, of, germany}: 2/3 either way.
  CHECK(reward(Scorer::f1) == Approx((1 + 2.0 / 3) / 2));
}

TEST_CASE("an invalid action and a search on the last turn end the trajectory without reward", "[atlas]") {
  AtlasEnvironment environment({});
  REQUIRE(environment.reset(kenya_task(), 1));
  const Turn invalid = must(environment.step({ActionKind::invalid, "", "text"}));
  CHECK(invalid.is_done);
  CHECK(invalid.reward == 0);
  CHECK(invalid.metrics.at("missing") == 2);

  Task task = kenya_task();
  task.max_turns = 1;
  REQUIRE(environment.reset(task, 1));
  const Turn last = must(environment.step(search("Turkana country")));
  CHECK(last.is_done);
  CHECK_FALSE(last.tool_call);
  CHECK(last.metrics.at("searches") == 1);
}

TEST_CASE("a fictional trajectory renames what is read and asked back what is searched", "[atlas][fictional]") {
  AtlasEnvironment environment({.fictional = 1});
  const Turn first = must(environment.reset(kenya_task(), 1));
  CHECK(first.observation.find("Turkana") == std::string::npos);
  const auto questions = parse_questions(first.observation);
  REQUIRE(questions);
  const std::string place = (*questions)[0].subject;

  const Turn turn = must(environment.step(search(place + " country")));
  CHECK(turn.tool_call->query == "Turkana country");
  const Turn read = must(environment.tool_result({{{"1", "Turkana", "Turkana is a county in Kenya.", 1}}}));
  CHECK(read.observation.find(" " + place + " is a county in ") == 0);
  CHECK(read.observation.find("Kenya") == std::string::npos);

  CHECK(must(environment.step(answer("Nairobi; Germany"))).metrics.at("em") == 0.0);
}

TEST_CASE("the reset seed alone decides which trajectories are fictional, at the stated share", "[atlas][fictional]") {
  AtlasEnvironment environment({.fictional = 0.25});
  int num_fictional = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const std::string shown = must(environment.reset(kenya_task(), seed)).observation;
    num_fictional += shown.find("Turkana") == std::string::npos ? 1 : 0;
    if (seed < 20) {
      CHECK(must(environment.reset(kenya_task(), seed)).observation == shown);
    }
  }
  CHECK(std::abs(num_fictional - 250) < 55);  // four standard deviations
}

TEST_CASE("only training trajectories are fictional, and evaluation sees the real names", "[atlas][fictional]") {
  AtlasEnvironment environment({.fictional = 1});
  Task task = kenya_task();
  task.split = "test";
  CHECK(must(environment.reset(task, 1)).observation == task.text);
  CHECK(must(environment.step(answer("Nairobi; Germany"))).metrics.at("fictional") == 0);
}

TEST_CASE("calls out of turn and tasks without targets are errors", "[atlas][error]") {
  AtlasEnvironment environment({});
  CHECK(environment.step(answer("x")).error().code == ErrorCode::refused);
  CHECK(environment.tool_result({}).error().code == ErrorCode::refused);
  REQUIRE(environment.reset(kenya_task(), 1));
  CHECK(environment.tool_result({}).error().code == ErrorCode::refused);
  REQUIRE(environment.step(search("A")));
  CHECK(environment.step(search("A")).error().code == ErrorCode::refused);
  REQUIRE(environment.tool_result({}));
  REQUIRE(environment.step(answer("x")));
  CHECK(environment.step(answer("x")).error().code == ErrorCode::refused);
  Task task = kenya_task();
  task.targets[1].clear();
  CHECK(environment.reset(task, 1).error().code == ErrorCode::invalid_argument);
  CHECK(environment.step(answer("x")).error().code == ErrorCode::refused);
}

TEST_CASE("option values are checked where the environment is made", "[atlas][error]") {
  const auto message = [](const std::string& key, const std::string& value) {
    return make_environment("atlas", {.options = {{key, value}}}).error().message;
  };
  CHECK(message("fictional", "1.5") == "option fictional = `1.5`: allowed is a number in 0..1");
  for (const char* mix : {"", "1", "1,1", "1,1,1,1", "-1,1,1", "0,0,0", "nan,1,1", "1,1,x"}) {
    CAPTURE(mix);
    CHECK(message("mix", mix).find("option mix = `") == 0);
  }
  CHECK(message("pieces", "/no/such/file") == "word pieces /no/such/file: no such file");
  CHECK(make_environment("atlas", {.options = {{"mix", "0,0,1"}, {"fictional", "0.5"}}}).has_value());
  CHECK(make_environment("atlas", {.scorer = "bleu"}).error().message.find("unknown scorer `bleu`") == 0);
}

TEST_CASE("the task source serves any part of its stream and refuses unknown splits", "[atlas][CL-3][error]") {
  const auto source = must(make_task_source("atlas", {.options = {{"mix", "0,0,1"}}}));
  const auto tasks = must(source->tasks({.split = "val", .seed = 3, .first = 4, .count = 3}));
  REQUIRE(tasks.size() == 3);
  CHECK(tasks[0].id == "val_k2_s3_4");
  CHECK(tasks[2].text == must(source->tasks({.split = "val", .seed = 3, .first = 6}))[0].text);
  CHECK(tasks[0].text.find(" of the country of ") != std::string::npos);
  CHECK(source->tasks({.split = "dev", .count = 0}).error().code == ErrorCode::not_found);
  CHECK(source->tasks({.split = "val", .first = -1}).error().code == ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace memopd::atlas

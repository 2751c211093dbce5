// What every registered environment must hold, so that the env actor can rely on it. Environments with a scripted expert
// and tasks of their own are played; the others have to be listed here with a reason.

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>

#include "envs/registry.hpp"
#include "envs/retrieval/bm25_index.hpp"
#include "tests/unit/envs/scripted_play.hpp"

namespace memopd {
namespace {

using testing::must;

struct Subject {
  std::string name;
  std::unique_ptr<Environment> environment;
  std::unique_ptr<Expert> expert;
  std::vector<Task> tasks;
  std::unique_ptr<Bm25Index> index;  ///< null for environments without documents
};

Subject make_subject(const std::string& name) {
  Subject subject;
  subject.name = name;
  subject.environment = must(make_environment(name, {}));
  subject.expert = must(make_expert(name, {}));
  subject.tasks = must(must(make_task_source(name, {}))->tasks({.split = "train", .seed = 4, .first = 0, .count = 20}));
  if (const auto corpus = environment_corpus(name, {})) {
    subject.index = std::make_unique<Bm25Index>(must(Bm25Index::build(*corpus)));
  }
  return subject;
}

bool is_same(const Turn& left, const Turn& right) {
  const auto query = [](const Turn& turn) { return turn.tool_call ? turn.tool_call->query : ""; };
  return left.observation == right.observation && left.reward == right.reward && left.is_done == right.is_done &&
         left.metrics == right.metrics && query(left) == query(right);
}

TEST_CASE("every environment: the scripted policy reaches the end within the turn limit", "[environment_contract]") {
  for (const std::string& name : environment_names()) {
    Subject subject = make_subject(name);
    for (std::size_t i = 0; i < subject.tasks.size(); ++i) {
      const auto played =
          testing::play(*subject.environment, *subject.expert, subject.index.get(), subject.tasks[i], i, 3);
      CAPTURE(name, played.question, played.calls.back().response);
      CHECK(played.is_done);
      CHECK(played.last.reward == Approx(1.0));
      CHECK_FALSE(played.last.tool_call);
      CHECK(played.last.metrics.count("em") == 1);
    }
  }
}

TEST_CASE("every environment: any policy reaches the end within the turn limit", "[environment_contract]") {
  for (const std::string& name : environment_names()) {
    Subject subject = make_subject(name);
    const Task& task = subject.tasks.front();
    Turn turn = must(subject.environment->reset(task, 1));
    const std::int32_t max_turns = task.max_turns.value_or(subject.environment->info().max_turns);
    std::int32_t num_turns = 0;
    for (; num_turns < max_turns && !turn.is_done; ++num_turns) {
      turn = must(subject.environment->step({ActionKind::search, "never ending", ""}));
      turn = turn.tool_call ? must(subject.environment->tool_result({})) : turn;
    }
    CAPTURE(name, num_turns);
    CHECK(turn.is_done);
  }
}

TEST_CASE("every environment: the same task, seed and actions give the same turns", "[environment_contract][RL-6]") {
  for (const std::string& name : environment_names()) {
    Subject first = make_subject(name);
    Subject second = make_subject(name);
    REQUIRE(first.environment->info().is_deterministic);
    for (std::size_t i = 0; i < first.tasks.size(); ++i) {
      CAPTURE(name, i);
      // The second slot has played other tasks before: nothing of them may show.
      const auto other =
          testing::play(*second.environment, *second.expert, second.index.get(), second.tasks.back(), 7, 3);
      const auto left = testing::play(*first.environment, *first.expert, first.index.get(), first.tasks[i], i, 3);
      const auto right = testing::play(*second.environment, *second.expert, second.index.get(), second.tasks[i], i, 3);
      CHECK(left.question == right.question);
      REQUIRE(left.calls.size() == right.calls.size());
      for (std::size_t j = 0; j < left.calls.size(); ++j) {
        CHECK(left.calls[j].context == right.calls[j].context);
      }
      CHECK(is_same(left.last, right.last));
    }
  }
}

TEST_CASE("every environment: calls out of turn are errors and leave the slot usable",
          "[environment_contract][error]") {
  for (const std::string& name : environment_names()) {
    CAPTURE(name);
    Subject subject = make_subject(name);
    Environment& environment = *subject.environment;
    const Action answer{ActionKind::answer, "x", ""};
    CHECK(environment.step(answer).error().code == ErrorCode::refused);
    CHECK(environment.tool_result({}).error().code == ErrorCode::refused);
    REQUIRE(environment.reset(subject.tasks[0], 1));
    CHECK(environment.tool_result({}).error().code == ErrorCode::refused);
    CHECK(must(environment.step(answer)).is_done);
    CHECK(environment.step(answer).error().code == ErrorCode::refused);
    CHECK_FALSE(environment.reset(Task{}, 1));  // a task without targets
    const auto played = testing::play(environment, *subject.expert, subject.index.get(), subject.tasks[0], 1, 3);
    CHECK(played.last.reward == Approx(1.0));
  }
}

TEST_CASE("every environment: no text from a model is an error", "[environment_contract][error]") {
  const std::string texts[] = {"", ";;;", std::string(100000, 'x'), "\xFF\xFE\x00", "\" OR 1=1 --", "</answer>"};
  for (const std::string& name : environment_names()) {
    Subject subject = make_subject(name);
    for (const std::string& text : texts) {
      for (const ActionKind kind : {ActionKind::search, ActionKind::answer, ActionKind::invalid}) {
        CAPTURE(name, text.substr(0, 20), static_cast<int>(kind));
        REQUIRE(subject.environment->reset(subject.tasks[0], 1));
        const Turn turn = must(subject.environment->step({kind, text, text}));
        CHECK((turn.is_done || kind == ActionKind::search));
        if (turn.tool_call) {
          CHECK(subject.environment->tool_result({must(subject.index->query(turn.tool_call->query, 3))}).has_value());
        }
      }
    }
  }
}

TEST_CASE("every environment: tasks are complete, numbered by the stream and refused for unknown splits",
          "[environment_contract][CL-3]") {
  for (const std::string& name : environment_names()) {
    CAPTURE(name);
    const auto source = must(make_task_source(name, {}));
    const auto tasks = must(source->tasks({.split = "train", .seed = 9, .first = 0, .count = 10}));
    REQUIRE(tasks.size() == 10);
    for (std::int32_t i = 0; i < 10; ++i) {
      const Task& task = tasks[static_cast<std::size_t>(i)];
      CHECK_FALSE(task.id.empty());
      CHECK_FALSE(task.text.empty());
      CHECK_FALSE(task.targets.empty());
      CHECK(task.split == "train");
      CHECK(must(source->tasks({.split = "train", .seed = 9, .first = i, .count = 1}))[0].text == task.text);
    }
    CHECK(source->tasks({.split = "no_such_split"}).error().code == ErrorCode::not_found);
    CHECK(source->tasks({.split = "train", .first = -1}).error().code == ErrorCode::invalid_argument);
  }
}

TEST_CASE("every environment: tools that it calls are the ones that it declares", "[environment_contract]") {
  for (const std::string& name : environment_names()) {
    Subject subject = make_subject(name);
    const EnvironmentInfo info = subject.environment->info();
    CHECK(info.name == name);
    CHECK(info.max_turns >= 1);
    CHECK(info.max_slots >= 1);
    REQUIRE(subject.environment->reset(subject.tasks[0], 1));
    const Turn turn = must(subject.environment->step({ActionKind::search, "x", ""}));
    if (turn.tool_call) {
      CHECK(std::count(info.tools.begin(), info.tools.end(), turn.tool_call->tool) == 1);
      CHECK(turn.observation.empty());
    }
  }
}

}  // namespace
}  // namespace memopd

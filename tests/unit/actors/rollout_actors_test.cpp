// env and align_pack together, in virtual time.
#include <algorithm>
#include <catch2/catch.hpp>

#include "policies/text/tokenizer.hpp"
#include "runtime/data/trajectory_id.hpp"
#include "tests/support/scripted_run.hpp"

using namespace memopd;
using memopd::testing::ScriptedOptions;
using memopd::testing::ScriptedRun;

namespace {

std::int64_t time_of(const std::string& what) {
  const auto& seen = ScriptedRun::seen();
  const auto found = std::find_if(seen.begin(), seen.end(), [&](const auto& event) { return event.what == what; });
  REQUIRE(found != seen.end());
  return found->time_ms;
}

}  // namespace

TEST_CASE("the teacher scores a call while the next one is generated", "[actors][align_pack]") {
  ScriptedRun run({.num_searches = 2});

  const auto done = run.run(ScriptedRun::task(0));

  REQUIRE(done);
  CHECK(done->status == TrajectoryStatus::completed);
  CHECK(time_of("score call 0") == 100);     // when the answer to call 0 came,
  CHECK(time_of("generate call 1") == 100);  // while call 1 is being sampled,
  CHECK(time_of("scored") == 130);           // and back before call 1 is
  CHECK(time_of("score call 1") == 200);
  CHECK(time_of("score call 2") == 300);
}

TEST_CASE("a closed step holds every call with its own scores, in order", "[actors][align_pack][pain:T19]") {
  ScriptedRun run({.num_searches = 2});
  REQUIRE(run.run(ScriptedRun::task(1)));
  REQUIRE(run.run(ScriptedRun::task(0)));

  const auto closed = run.close({{"train", 0, 1, 0}, {"train", 0, 0, 0}});

  REQUIRE(closed);
  const auto batch = run.batch(*closed);
  REQUIRE(batch->trajectories.size() == 2);
  CHECK(to_string(batch->trajectories[0].id) == "train.0.0.0");
  REQUIRE(batch->scores.size() == 6);
  for (std::size_t trajectory = 0; trajectory < 2; ++trajectory) {
    for (std::size_t call = 0; call < 3; ++call) {
      const ScoreRef& score = batch->scores[trajectory * 3 + call];
      const Invocation& invocation = batch->trajectories[trajectory].invocations[call];
      CHECK(score.trajectory_id == invocation.trajectory_id);
      CHECK(score.invocation_index == invocation.invocation_index);
      CHECK(score.row_end - score.row_begin == static_cast<std::int32_t>(invocation.response_token_ids.size()));
    }
  }
}

TEST_CASE("prompts of later calls hold the recorded ids of the call before and nothing older", "[actors][env][AP-1]") {
  ScriptedRun run({.num_searches = 3});
  REQUIRE(run.run(ScriptedRun::task(0)));
  const auto closed = run.close({{"train", 0, 0, 0}});
  REQUIRE(closed);

  const auto& calls = run.batch(*closed)->trajectories.front().invocations;

  REQUIRE(calls.size() == 4);
  for (std::size_t call = 1; call < calls.size(); ++call) {
    const auto& prompt = calls[call].prompt_token_ids;
    const auto& kept = calls[call - 1].response_token_ids;
    const auto question = calls[0].prompt_token_ids.size();
    REQUIRE(prompt.size() > question + kept.size());
    CHECK(std::equal(kept.begin(), kept.end(), prompt.begin() + static_cast<std::ptrdiff_t>(question)));
    CHECK(prompt.size() == calls[1].prompt_token_ids.size());  // as long as ever: older calls are gone
  }
}

TEST_CASE("a reward of a turn stays with its invocation, the final one with the trajectory", "[actors][env]") {
  ScriptedRun run({.num_searches = 2});
  REQUIRE(run.run(ScriptedRun::task(0, "paid")));
  const auto closed = run.close({{"train", 0, 0, 0}});
  REQUIRE(closed);

  const auto trajectory = run.batch(*closed)->trajectories.front();

  CHECK(trajectory.invocations[0].reward == 0.25);
  CHECK(trajectory.invocations[1].reward == 0.25);
  CHECK(trajectory.invocations[2].reward == 0.0);
  CHECK(trajectory.rewards.at("final") == 1.0);
}

TEST_CASE("documents that an environment leaves unformatted are shown by the protocol's template", "[actors][env]") {
  Config config = ScriptedRun::default_config();
  config.protocol.document = "[{title}:{text}]";
  ScriptedRun run({.num_searches = 1}, config);
  REQUIRE(run.run(ScriptedRun::task(0, "unformatted")));
  const auto closed = run.close({{"train", 0, 0, 0}});
  REQUIRE(closed);

  const auto tokenizer = Tokenizer::load(run.folder());
  REQUIRE(tokenizer);
  const auto& call = run.batch(*closed)->trajectories.front().invocations.at(1);

  CHECK(tokenizer->decode(call.prompt_token_ids).find("<information>[t:fact]</information>") != std::string::npos);
}

TEST_CASE("an environment that throws ends its trajectory env_failed with what it said", "[actors][env][error]") {
  ScriptedRun run({});

  const auto done = run.run(ScriptedRun::task(0, "throws"));

  REQUIRE(done);
  CHECK(done->status == TrajectoryStatus::env_failed);
  CHECK(done->note == "environment scripted threw: disk on fire");
}

TEST_CASE("a reset that fails once is tried again", "[actors][env]") {
  ScriptedRun run({});

  const auto done = run.run(ScriptedRun::task(0, "fails_once"));

  REQUIRE(done);
  CHECK(done->status == TrajectoryStatus::completed);
}

TEST_CASE("an environment that never answers ends its trajectory at the deadline and nobody else's",
          "[actors][env][error][pain:T24]") {
  ScriptedRun run({});
  auto silent = run.begin(ScriptedRun::task(0, "silent"));
  run.cluster().run();
  auto other = run.begin(ScriptedRun::task(1));

  const auto timed_out = silent.get();
  const auto completed = other.get();

  REQUIRE(timed_out);
  CHECK(timed_out->status == TrajectoryStatus::timeout);
  CHECK(timed_out->note == "environment scripted: no answer within turn_timeout_ms 5000");
  REQUIRE(completed);
  CHECK(completed->status == TrajectoryStatus::completed);
}

TEST_CASE("searching on the last turn ends the trajectory turn_limit without reward", "[actors][env]") {
  ScriptedRun run({.num_searches = 20});
  RunTask task = ScriptedRun::task(0);
  task.task.max_turns = 3;

  const auto done = run.run(task);

  REQUIRE(done);
  CHECK(done->status == TrajectoryStatus::turn_limit);
  CHECK(done->metrics.at("turns") == 3);
  CHECK(done->rewards.at("final") == 0);
}

TEST_CASE("a prompt above its limit ends the trajectory context_limit and keeps its tokens", "[actors][env]") {
  Config config = ScriptedRun::default_config();
  config.protocol.max_prompt_tokens = 16;  // the question fits, question + memory + observation do not
  config.protocol.max_observation_tokens = 12;
  ScriptedRun run({}, config);

  const auto done = run.run(ScriptedRun::task(0));

  REQUIRE(done);
  CHECK(done->status == TrajectoryStatus::context_limit);
  const auto closed = run.close({{"train", 0, 0, 0}});
  REQUIRE(closed);
  CHECK(num_response_tokens(run.batch(*closed)->trajectories.front()) > 0);
}

TEST_CASE("a teacher that fails is asked again, one that keeps failing costs the trajectories it had",
          "[actors][align_pack]") {
  ScriptedRun twice({.num_searches = 0, .num_teacher_failures = 2});
  REQUIRE(twice.run(ScriptedRun::task(0)));
  const auto scored = twice.close({{"train", 0, 0, 0}});
  REQUIRE(scored);
  CHECK(twice.batch(*scored)->trajectories.front().status == TrajectoryStatus::completed);

  ScriptedRun always({.num_searches = 0, .num_teacher_failures = 1000});
  REQUIRE(always.run(ScriptedRun::task(0)));
  const auto unscored = always.close({{"train", 0, 0, 0}});
  REQUIRE(unscored);
  CHECK(always.batch(*unscored)->trajectories.front().status == TrajectoryStatus::teacher_unavailable);
}

TEST_CASE("teacher rows that do not match the response tokens end the run with the invocation named",
          "[actors][align_pack][error]") {
  ScriptedRun run({.num_searches = 0, .teacher_extra_rows = 1});

  auto future = run.begin(ScriptedRun::task(0));
  run.cluster().run_for(std::chrono::seconds(1));

  const auto failure = run.cluster().first_failure();
  REQUIRE(failure);
  CHECK(failure->name == "align_pack/0");
  CHECK(failure->reason.find("train.0.0.0, invocation 0") != std::string::npos);
}

TEST_CASE("evaluation trajectories are never scored", "[actors][align_pack]") {
  ScriptedRun run({});
  RunTask task = ScriptedRun::task(0);
  task.is_training = false;

  REQUIRE(run.run(task));
  run.cluster().run_for(std::chrono::seconds(1));

  const auto& seen = ScriptedRun::seen();
  CHECK(std::none_of(seen.begin(), seen.end(), [](const auto& event) { return event.what.starts_with("score"); }));
}

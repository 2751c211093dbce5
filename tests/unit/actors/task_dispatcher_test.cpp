#include "actors/task_dispatcher.hpp"

#include <catch2/catch.hpp>
#include <utility>

#include "runtime/actor/deterministic_cluster.hpp"

using namespace memopd;

namespace {

class Nobody final : public Actor {
  void setup() override {}
};
MEMOPD_REGISTER_ACTOR("test_env_place", Nobody)

/// Env actors that never answer by themselves; the test answers for them.
struct Envs {
  struct Asked {
    ActorRef env;
    RunTask task;
    Promise<TrajectoryDone> answer;
  };

  explicit Envs(std::int32_t count)
      : group(*cluster->spawn("test_env_place", {.count = count}, "env")),
        dispatcher(group, 2, [this](const ActorRef& env, RunTask task) {
          asked.push_back({env, std::move(task), {}});
          return asked.back().answer.later();
        }) {}

  void lose(std::size_t index, const std::string& why) {
    asked[index].answer.deliver(unexpected(ErrorCode::target_down, why));
  }
  void finish(std::size_t index) {
    TrajectoryDone done;
    done.trajectory_id = asked[index].task.trajectory_id;
    done.attempt = asked[index].task.attempt;
    asked[index].answer.deliver(std::move(done));
  }

  std::unique_ptr<DeterministicCluster> cluster = make_deterministic_cluster({});
  ActorGroup group;
  std::deque<Asked> asked;
  TaskDispatcher dispatcher;
};

RunTask task(std::int32_t index) {
  RunTask made;
  made.trajectory_id = {"train", 0, index, 0};
  made.seed = 77;
  return made;
}

}  // namespace

TEST_CASE("a task whose env actor is lost is a new attempt with another one and the same seed",
          "[task_dispatcher][RL-2][RL-7]") {
  Envs envs(2);
  TasksDone done;
  envs.dispatcher.run({task(0)}).then([&](const Expected<TasksDone>& result) { done = *result; });

  envs.lose(0, "env/0 is being restarted");

  REQUIRE(envs.asked.size() == 2);
  CHECK(envs.asked[0].env == envs.group[0]);
  CHECK(envs.asked[1].env == envs.group[1]);
  CHECK(envs.asked[1].task.attempt == 1);
  CHECK(envs.asked[1].task.seed == 77);
  envs.finish(1);
  REQUIRE(done.trajectories.size() == 1);
  CHECK(done.trajectories.front().attempt == 1);
}

TEST_CASE("a task lost five times is env_failed with every reason", "[task_dispatcher][error]") {
  Envs envs(1);
  TasksDone done;
  envs.dispatcher.run({task(0)}).then([&](const Expected<TasksDone>& result) { done = *result; });

  for (std::size_t attempt = 0; attempt < 5; ++attempt) {
    envs.lose(attempt, "death " + std::to_string(attempt));
  }

  CHECK(envs.asked.size() == 5);
  REQUIRE(done.trajectories.size() == 1);
  CHECK(done.trajectories.front().status == TrajectoryStatus::env_failed);
  CHECK(done.trajectories.front().note == "death 0; death 1; death 2; death 3; death 4");
}

TEST_CASE("a task whose env actor ended for good is not tried again", "[task_dispatcher][error]") {
  Envs envs(1);
  envs.cluster->run();
  TasksDone done;
  envs.dispatcher.run({task(0)}).then([&](const Expected<TasksDone>& result) { done = *result; });
  envs.cluster->kill(envs.group[0], "test");

  envs.lose(0, "env/0 is down");

  CHECK(envs.asked.size() == 1);
  CHECK(done.trajectories.at(0).status == TrajectoryStatus::env_failed);
}

TEST_CASE("tasks that are given up are not dispatched, and their end is waited for and ignored",
          "[task_dispatcher][CL-3]") {
  Envs envs(1);
  bool was_answered = false;
  bool is_idle = false;
  std::optional<ErrorCode> refused;
  envs.dispatcher.run({task(0), task(1), task(2)}).then([&](const Expected<TasksDone>& result) {
    was_answered = result.has_value();
    refused = result.error().code;
  });
  REQUIRE(envs.asked.size() == 2);  // two slots

  envs.dispatcher.give_up([&] { is_idle = true; });
  CHECK_FALSE(is_idle);
  envs.lose(0, "env/0 is being restarted");  // no new attempt
  CHECK_FALSE(is_idle);
  envs.finish(1);

  CHECK(is_idle);
  CHECK(envs.asked.size() == 2);
  CHECK_FALSE(was_answered);
  CHECK(refused == ErrorCode::refused);
}

TEST_CASE("an idle dispatcher has given up at once and runs what comes next", "[task_dispatcher][CL-3]") {
  Envs envs(1);
  bool is_idle = false;
  envs.dispatcher.give_up([&] { is_idle = true; });
  CHECK(is_idle);
  TasksDone done;
  envs.dispatcher.run({task(0)}).then([&](const Expected<TasksDone>& result) { done = *result; });

  envs.finish(0);

  CHECK(done.trajectories.size() == 1);
}

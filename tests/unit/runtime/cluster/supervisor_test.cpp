#include "runtime/cluster/supervisor.hpp"

#include <catch2/catch.hpp>

namespace memopd {
namespace {

using namespace std::chrono_literals;
using Kind = SupervisorAction::Kind;

ProcessPlan plan(const std::string& name, RestartPolicy policy = {2, 60s, 100ms}) {
  return {{name, "student", 0, 0, {}, PlacementRule::pack}, policy};
}

std::vector<ActorEntry> actors(const std::string& process) {
  return {{"student/0", "student", "counter", 0, 1, false, 10, process}};
}

/// One process, student/0 with one actor, on the node "local".
struct Run {
  Supervisor supervisor{{{"local", 4, 1e12, {}}}, 10s};

  Run() {
    REQUIRE(supervisor.add_processes({plan("student/0")}, 0s));
    REQUIRE(supervisor.add_group(actors("student/0"), 0s));
    supervisor.node_up("local", 0s);
  }
  /// Says hello and hosts.
  void come_up(std::uint64_t incarnation) {
    REQUIRE(supervisor.said_hello("student/0", incarnation, {}, {"ipc://x"}));
    supervisor.hosted("student/0", incarnation, "student", std::nullopt);
  }
  [[nodiscard]] const ProcessEntry& entry() const { return *supervisor.directory().process("student/0"); }
};

TEST_CASE("a process runs once it has hosted all its actors", "[cluster]") {
  Run run;
  const auto actions = run.supervisor.take_actions();
  REQUIRE(actions.size() == 1);
  CHECK(actions[0].kind == Kind::start);
  CHECK(actions[0].incarnation == 1);
  REQUIRE(run.supervisor.said_hello("student/0", 1, {}, {"ipc://x"}));
  CHECK(run.entry().state == ProcessState::starting);

  run.supervisor.hosted("student/0", 1, "student", std::nullopt);

  CHECK(run.entry().state == ProcessState::running);
}

TEST_CASE("a process that died is started again after its back-off, under the next incarnation", "[cluster][CL-2]") {
  Run run;
  run.come_up(1);
  (void)run.supervisor.take_actions();

  run.supervisor.exited("student/0", 1, {"killed by SIGKILL", 137, false, {}, 0, ""}, 1s);
  run.supervisor.tick(1s + 99ms);
  CHECK(run.supervisor.take_actions().empty());
  CHECK(run.entry().reason == "killed by SIGKILL");
  run.supervisor.tick(1s + 100ms);

  const auto actions = run.supervisor.take_actions();
  REQUIRE(actions.size() == 1);
  CHECK(actions[0].incarnation == 2);
  CHECK_FALSE(run.supervisor.said_hello("student/0", 1, {}, {"ipc://old"}));
  run.supervisor.hosted("student/0", 1, "student", std::nullopt);
  CHECK(run.entry().state == ProcessState::starting);
}

TEST_CASE("more restarts than allowed end the run with the first cause", "[cluster][pain:L12]") {
  Run run;
  for (std::uint64_t incarnation = 1; incarnation <= 3; ++incarnation) {
    run.supervisor.tick(incarnation * 10s);
    (void)run.supervisor.take_actions();
    REQUIRE(run.entry().incarnation == incarnation);
    run.supervisor.actor_failed("student/0", incarnation, "student/0", "no model " + std::to_string(incarnation));
    CHECK_FALSE(run.supervisor.failure());
    run.supervisor.exited("student/0", incarnation, {"exited with code 1", 1, false, {}, 0, ""}, incarnation * 10s);
  }

  REQUIRE(run.supervisor.failure());
  CHECK(run.supervisor.failure()->cause ==
        "student/0: student/0: no model 3 (exited with code 1); restarted 2 times in 60 s before");
  CHECK(run.entry().state == ProcessState::failed);
}

TEST_CASE("the first failure names who, how, what it did, how large it was and what it said last",
          "[cluster][pain:T28]") {
  Run run;
  for (std::uint64_t incarnation = 1; incarnation <= 3; ++incarnation) {
    run.supervisor.tick(incarnation * 10s);
    const ProcessEnd end{"killed by SIGSEGV, core dumped", 139,       false,
                         {"earlier", "reading tensor 7"},  300 << 20, "student/0 in Generate"};
    run.supervisor.exited("student/0", incarnation, end, incarnation * 10s);
  }
  REQUIRE(run.supervisor.failure());
  CHECK(run.supervisor.failure()->exit_code == 139);
  CHECK(run.supervisor.failure()->cause ==
        "student/0: killed by SIGSEGV, core dumped; its last line: reading tensor 7; last seen with student/0 in "
        "Generate; "
        "peak memory 300 MiB; restarted 2 times in 60 s before");
}

TEST_CASE("restarts outside the window do not count", "[cluster]") {
  RestartTracker tracker({2, 60s, 100ms});
  CHECK(tracker.ended(0s) == 100ms);
  CHECK(tracker.ended(10s) == 200ms);
  CHECK(tracker.ended(61s) == 200ms);
  CHECK_FALSE(tracker.ended(62s));
  CHECK(tracker.num_restarts() == 3);
}

TEST_CASE("a process that does not report is killed, and only its death starts the next", "[cluster][CL-1]") {
  Run run;
  (void)run.supervisor.take_actions();
  run.supervisor.tick(10s + 1ms);

  const auto actions = run.supervisor.take_actions();
  REQUIRE(actions.size() == 1);
  CHECK(actions[0].kind == Kind::kill);
  CHECK(actions[0].reason == "did not report within 10 s of its start");
  run.supervisor.tick(60s);
  CHECK(run.supervisor.take_actions().empty());
}

TEST_CASE("silence is shown as suspect before it is death", "[cluster][pain:L11]") {
  Run run;
  run.come_up(1);
  run.supervisor.suspect("student/0", 1, 1200);
  CHECK(run.entry().state == ProcessState::suspect);
  CHECK(run.entry().reason == "silent for 1200 ms");
  run.supervisor.suspect("student/0", 1, 0);
  CHECK(run.entry().state == ProcessState::running);
}

TEST_CASE("the end of a node is the end of each process there", "[cluster]") {
  Run run;
  run.come_up(1);
  (void)run.supervisor.take_actions();
  run.supervisor.node_down("local", "agent of node local killed by SIGKILL", 1s);
  run.supervisor.tick(5s);
  CHECK(run.supervisor.take_actions().empty());

  run.supervisor.node_up("local", 6s);

  const auto actions = run.supervisor.take_actions();
  REQUIRE(actions.size() == 1);
  CHECK(actions[0].incarnation == 2);
}

TEST_CASE("processes of a node that ends move to one with room; without one they wait for it", "[cluster][CL-1]") {
  Supervisor supervisor({{"a", 4, 1e12, {"head"}}, {"b", 4, 1e12, {}}}, 10s);
  ProcessPlan bound = plan("learner/0");
  bound.demand.labels = {"head"};
  REQUIRE(supervisor.add_processes({plan("student/0"), bound}, 0s));
  supervisor.node_up("a", 0s);
  supervisor.node_up("b", 0s);
  (void)supervisor.take_actions();

  supervisor.node_down("a", "cut off", 1s);
  supervisor.tick(2s);

  const auto actions = supervisor.take_actions();
  REQUIRE(actions.size() == 1);
  CHECK(actions[0].process == "student/0");
  CHECK(actions[0].node == "b");
  CHECK(actions[0].incarnation == 2);
  CHECK(supervisor.describe_bound_to("a") == "learner/0");
  CHECK_FALSE(supervisor.failure());

  supervisor.node_up("a", 3s);
  const auto back = supervisor.take_actions();
  REQUIRE(back.size() == 1);
  CHECK(back[0].process == "learner/0");
  CHECK(back[0].node == "a");
}

TEST_CASE("nothing is started again once the run is stopping", "[cluster][pain:L13]") {
  Run run;
  run.come_up(1);
  (void)run.supervisor.take_actions();
  run.supervisor.stop_all();
  run.supervisor.exited("student/0", 1, {"exited with code 0", 0, true, {}, 0, ""}, 1s);
  run.supervisor.tick(100s);

  CHECK(run.supervisor.take_actions().empty());
  CHECK(run.supervisor.alive().empty());
  CHECK_FALSE(run.supervisor.failure());
  CHECK(run.entry().state == ProcessState::ended);
}

TEST_CASE("who is missing at the start is named", "[cluster]") {
  Run run;
  CHECK(run.supervisor.describe_missing(30s) == "student/0 has not said hello since 30 s");
}

}  // namespace
}  // namespace memopd

// Clusters of real processes on this host: calls, deaths, ends.
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "runtime/cluster/head.hpp"
#include "tests/unit/runtime/cluster/cluster_test_actors.hpp"
#include "tests/unit/runtime/cluster/test_processes.hpp"

namespace memopd::testing {
namespace {

using namespace std::chrono_literals;

TEST_CASE("actors in processes of their own are called like any other", "[cluster][processes]") {
  const auto cluster = start_processes();
  const auto group = cluster->spawn("resident", {.count = 3, .process = "own"}, "resident");
  REQUIRE(group);

  CHECK(cluster->ask<Total>(group[0], Add{5}, kPatience).get()->value == 5);
  CHECK(cluster->ask<Total>(group[0], Add{2}, kPatience).get()->value == 7);
  const auto a = cluster->ask<Place>(group[1], Where{}, kPatience).get();
  const auto b = cluster->ask<Place>(group[2], Where{}, kPatience).get();
  REQUIRE((a && b));
  CHECK(a->pid != b->pid);
  CHECK(a->pid != getpid());
}

TEST_CASE("groups that name one process share it", "[cluster][processes]") {
  const auto cluster = start_processes();
  const auto first = cluster->spawn("resident", {.count = 2, .process = "shared"}, "first");
  const auto a = cluster->ask<Place>(first[1], Where{}, kPatience).get();
  const auto second = cluster->spawn("resident", {.process = "shared"}, "second");
  const auto b = cluster->ask<Place>(second[0], Where{}, kPatience).get();
  REQUIRE((a && b));
  CHECK(a->pid == b->pid);
  CHECK(cluster->processes().size() == 2);  // with the agent
}

TEST_CASE("an actor finds and asks actors in other processes", "[cluster][processes]") {
  const auto cluster = start_processes();
  const auto target = cluster->spawn("resident", {.process = "own"}, "target");
  const auto relay = cluster->spawn("resident", {.process = "own"}, "relay");
  for (std::int64_t i = 1; i <= 100; ++i) {
    REQUIRE(cluster->ask<Total>(relay[0], Relay{"target", 1}, kPatience).get()->value == i);
  }
}

TEST_CASE("floats cross processes bit for bit", "[cluster][processes][R2]") {
  const auto cluster = start_processes();
  const auto group = cluster->spawn("resident", {.process = "own"}, "resident");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const Floats sent{{nan, infinity, -infinity, 1e-310, -0.0}, {1e-42F, static_cast<float>(-infinity)}};
  const auto back = cluster->ask<Floats>(group[0], sent, kPatience).get();
  REQUIRE(back);
  CHECK(std::memcmp(back->doubles.data(), sent.doubles.data(), sizeof(double) * 5) == 0);
  CHECK(std::memcmp(back->floats.data(), sent.floats.data(), sizeof(float) * 2) == 0);
}

TEST_CASE("a message above the limit of control names the way for large payloads", "[cluster][processes][R3][error]") {
  const auto cluster = start_processes();
  const auto group = cluster->spawn("resident", {.process = "own"}, "resident");
  REQUIRE(cluster->ask<Total>(group[0], Add{1}, kPatience).get());
  const auto answer = cluster->ask<Total>(group[0], Bytes{std::vector<std::byte>(2 << 20)}, kPatience).get();
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == ErrorCode::invalid_argument);
  CHECK_THAT(answer.error().message, Catch::Contains("Bytes v1 to resident/0") && Catch::Contains("object store"));
}

TEST_CASE("kill -9 in the middle of a call is an error for its asker at once",
          "[cluster][processes][CL-1][R4][pain:L01]") {
  const auto cluster = start_processes();
  const auto group = cluster->spawn("resident", {.process = "own"}, "resident");
  const auto place = cluster->ask<Place>(group[0], Where{}, kPatience).get();
  REQUIRE(place);
  auto slow = cluster->ask<Place>(group[0], Slow{600'000}, 600s);

  kill(static_cast<pid_t>(place->pid), SIGKILL);

  const auto answer = slow.get();  // long before its deadline, or this test runs into its own
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == ErrorCode::target_down);
}

TEST_CASE("a killed process comes back, and its references stay good", "[cluster][processes][CL-2]") {
  const auto cluster = start_processes();
  const auto group = cluster->spawn("resident", {.process = "own", .restart_backoff_ms = 10}, "resident");
  REQUIRE(cluster->ask<Total>(group[0], Add{5}, kPatience).get()->value == 5);
  auto again = cluster->ask<Place>(group[0], SlowAgain{1500}, kPatience);
  const auto place = cluster->ask<Place>(group[0], Where{}, kPatience).get();
  kill(static_cast<pid_t>(place->pid), SIGKILL);

  const auto answer = again.get();  // idempotent: asked again of the next start

  REQUIRE(answer);
  CHECK(answer->incarnation == 2);
  CHECK(answer->pid != place->pid);
  const auto total = cluster->ask<Total>(group[0], Add{1}, kPatience).get();
  REQUIRE(total);
  CHECK(total->value == 1);
  CHECK_FALSE(cluster->first_failure());
}

TEST_CASE("an actor that throws ends its process, whose next start knows nothing", "[cluster][processes]") {
  const auto cluster = start_processes();
  const auto group = cluster->spawn("resident", {.process = "own", .restart_backoff_ms = 10}, "resident");
  REQUIRE(cluster->ask<Total>(group[0], Add{5}, kPatience).get());
  const auto thrown = cluster->ask<void>(group[0], Throw{"ashes"}, kPatience).get();
  REQUIRE_FALSE(thrown);
  const auto total = ask_until_answered(*cluster, group[0], Add{1});
  REQUIRE(total);
  CHECK(total->value == 1);
  CHECK(total->incarnation == 2);
}

TEST_CASE("a storm of restarts ends the run with the first cause", "[cluster][processes][pain:L12][pain:L18]") {
  const auto cluster = start_processes();
  const auto group =
      cluster->spawn("resident", {.process = "own", .max_restarts = 1, .restart_backoff_ms = 1}, "resident");
  for (int i = 0; i < 2; ++i) {
    REQUIRE(ask_until_answered(*cluster, group[0], Add{1}));
    (void)cluster->ask<void>(group[0], Throw{"no model"}, kPatience).get();
  }
  REQUIRE(wait_for([&] { return cluster->first_failure().has_value(); }));
  CHECK_THAT(cluster->first_failure()->reason, Catch::Contains("resident/0: internal: no model"));
  CHECK(cluster->failure_exit_code() == 1);
  const auto after = cluster->ask<Total>(group[0], Add{1}, kPatience).get();
  REQUIRE_FALSE(after);
  CHECK(after.error().code == ErrorCode::target_down);
}

TEST_CASE("a process frozen for a moment is only suspect", "[cluster][processes][CL-1][pain:L11]") {
  ProcessClusterOptions options = test_options();
  options.links.dead_after_ms = 10'000;  // suspect after half of it: far from dead on a busy machine too
  options.links.lease_ms = 20'000;
  const auto cluster = start_processes(options);
  const auto group = cluster->spawn("resident", {.process = "own"}, "resident");
  const auto place = cluster->ask<Place>(group[0], Where{}, kPatience).get();
  REQUIRE(place);
  kill(static_cast<pid_t>(place->pid), SIGSTOP);
  CHECK(wait_for([&] { return state_of(*cluster, "resident/0") == ProcessState::suspect; }));
  kill(static_cast<pid_t>(place->pid), SIGCONT);
  CHECK(wait_for([&] { return state_of(*cluster, "resident/0") == ProcessState::running; }));
  CHECK(cluster->ask<Place>(group[0], Where{}, kPatience).get()->pid == place->pid);
}

TEST_CASE("a process frozen for long is declared dead and replaced", "[cluster][processes][CL-1]") {
  const auto cluster = start_processes();
  const auto group = cluster->spawn("resident", {.process = "own", .restart_backoff_ms = 10}, "resident");
  const auto place = cluster->ask<Place>(group[0], Where{}, kPatience).get();
  REQUIRE(place);
  kill(static_cast<pid_t>(place->pid), SIGSTOP);
  const auto later = cluster->ask<Place>(group[0], Where{}, kPatience).get();
  REQUIRE(later);
  CHECK(later->incarnation == 2);
}

TEST_CASE("a killed agent takes its workers along, and all come back", "[cluster][processes][CL-4]") {
  const auto cluster = start_processes();
  const auto group = cluster->spawn("resident", {.process = "own", .restart_backoff_ms = 10}, "resident");
  const auto place = cluster->ask<Place>(group[0], Where{}, kPatience).get();
  REQUIRE(place);
  const auto agent = pid_of(*cluster, "agent/local");
  REQUIRE(agent > 0);

  kill(static_cast<pid_t>(agent), SIGKILL);
  REQUIRE(wait_for([&] { return kill(static_cast<pid_t>(place->pid), 0) == -1; }));

  const auto later = ask_until_answered(*cluster, group[0], Add{1});
  REQUIRE(later);
  CHECK(later->incarnation == 2);
}

TEST_CASE("after shutdown no process is left", "[cluster][processes][CL-4][pain:L13]") {
  std::vector<std::int64_t> pids;
  {
    const auto cluster = start_processes();
    const auto group = cluster->spawn("resident", {.count = 4, .process = "own"}, "resident");
    for (const ActorRef& actor : *group) {
      pids.push_back(cluster->ask<Place>(actor, Where{}, kPatience).get()->pid);
    }
    pids.push_back(pid_of(*cluster, "agent/local"));
    const auto report = cluster->shutdown(5s);
    CHECK(report.survivors.empty());
    CHECK_FALSE(cluster->first_failure());
  }
  for (const std::int64_t pid : pids) {
    CHECK(kill(static_cast<pid_t>(pid), 0) == -1);
  }
}

TEST_CASE("objects are there for every process of a node and outlive who put them", "[cluster][processes][R14]") {
  const auto cluster = start_processes();
  const auto group = cluster->spawn("resident", {.process = "own", .max_restarts = 3}, "resident");
  const auto put = cluster->ask<PackRef>(group[0], PutPack{1000}, kPatience).get();
  REQUIRE(put);
  const auto place = cluster->ask<Place>(group[0], Where{}, kPatience).get();
  kill(static_cast<pid_t>(place->pid), SIGKILL);
  REQUIRE(ask_until_answered(*cluster, group[0], Add{1}));

  const auto pack = cluster->objects().get<PackedBatch>(put->ref);

  REQUIRE(pack);
  CHECK((*pack)->input_ids.size() == 1000);
  CHECK((*pack)->input_ids[999] == 999);
  CHECK(cluster->objects().release_scope({ScopeKind::step, 1}) == 1);
  CHECK_FALSE(cluster->objects().get<PackedBatch>(put->ref));
}

TEST_CASE("topology shows every actor with its process, and the edges between them", "[cluster][processes]") {
  const auto cluster = start_processes();
  const auto target = cluster->spawn("resident", {.process = "own"}, "target");
  const auto relay = cluster->spawn("resident", {.process = "own"}, "relay");
  REQUIRE(cluster->ask<Total>(relay[0], Relay{"target", 1}, kPatience).get());
  const auto has_edge = [&] {
    for (const EdgeStatus& edge : cluster->topology().edges) {
      if (edge.from == "relay/0" && edge.to == "target/0" && edge.num_messages == 1) {
        return true;
      }
    }
    return false;
  };
  CHECK(wait_for(has_edge));
  for (const ActorStatus& actor : cluster->topology().actors) {
    CHECK(actor.process == actor.name);
    CHECK(wait_for([&] { return state_of(*cluster, actor.process) == ProcessState::running; }));
  }
}

TEST_CASE("without reports the head knows where actors are, and nothing of what they do", "[cluster][processes]") {
  ProcessClusterOptions options = test_options();
  options.report_interval = 0ms;
  const auto cluster = start_processes(options);
  const auto target = cluster->spawn("resident", {.process = "own"}, "target");
  const auto relay = cluster->spawn("resident", {.process = "own"}, "relay");
  REQUIRE(cluster->ask<Total>(relay[0], Relay{"target", 1}, kPatience).get());
  // Long enough for a report of each turn, and a link keeps order: reports would be here before the answer is.
  REQUIRE(cluster->ask<Place>(relay[0], Slow{300}, kPatience).get());
  const Topology topology = cluster->topology();
  REQUIRE(topology.actors.size() == 2);
  for (const ActorStatus& actor : topology.actors) {
    CHECK(actor.process == actor.name);
    CHECK(actor.num_handled == 0);
  }
  for (const EdgeStatus& edge : topology.edges) {
    CHECK(edge.from == "client");
  }
  for (const ProcessView& view : cluster->processes()) {
    if (!view.entry.name.starts_with("agent/")) {  // an agent here is this process's own child
      CHECK(view.rss_bytes == 0);
    }
  }
}

TEST_CASE("an actor whose constructor throws in its process fails the run by name", "[cluster][processes][error]") {
  const auto cluster = start_processes();
  const auto none = cluster->spawn("residnet", {.process = "own"}, "resident");
  REQUIRE_FALSE(none);
  CHECK_THAT(none.error().message, Catch::Contains("did you mean \"resident\""));
}

}  // namespace
}  // namespace memopd::testing

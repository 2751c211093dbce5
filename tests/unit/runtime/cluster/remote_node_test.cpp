// Nodes whose agents are started by a command, as on other hosts: own folders, links over tcp, no heartbeat pipe.
#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/cluster/head.hpp"
#include "tests/unit/runtime/cluster/cluster_test_actors.hpp"
#include "tests/unit/runtime/cluster/test_processes.hpp"

namespace memopd::testing {
namespace {

using namespace std::chrono_literals;

const std::string kProgram = std::string(MEMOPD_BINARY_DIR) + "/bin/cluster_test_program";

/// This host as "here", and the nodes of `names` behind `sh -c 'exec ..'`, each with its name as its label.
ProcessClusterOptions nodes_elsewhere(const std::vector<std::string>& names) {
  ProcessClusterOptions options = test_options();
  options.links.tcp_host = "127.0.0.1";
  options.nodes = {{"here", 2, 1e9, {"here"}}};
  for (const std::string& name : names) {
    options.nodes.push_back({name, 2, 1e9, {name, "elsewhere"}});
    options.remote[name] = {{"sh", "-c", "exec " + kProgram + " memopd-agent agent/" + name}, "127.0.0.1"};
  }
  return options;
}

TEST_CASE("an actor on a node behind a command is called over tcp, and calls back", "[cluster][processes]") {
  const auto cluster = start_processes(nodes_elsewhere({"there"}));
  REQUIRE(cluster->wait_for_nodes(kPatience));
  const auto target = cluster->spawn("resident", {.process = "own", .labels = "here"}, "target");
  const auto relay = cluster->spawn("resident", {.process = "own", .labels = "there"}, "relay");

  CHECK(cluster->ask<Total>(relay[0], Relay{"target", 4}, kPatience).get()->value == 4);
  CHECK(cluster->ask<Total>(target[0], Relay{"relay", 3}, kPatience).get()->value == 3);

  for (const ProcessView& process : cluster->processes()) {
    if (process.entry.name == "relay/0") {
      CHECK(process.entry.node == "there");
      CHECK_THAT(process.entry.endpoints.back(), Catch::StartsWith("tcp://127.0.0.1:"));
    }
  }
}

TEST_CASE("what a process elsewhere prints reaches the run's log folder, to its last line",
          "[cluster][processes][pain:L09]") {
  const auto folder = std::filesystem::temp_directory_path() / ("memopd_remote_" + std::to_string(getpid()));
  ProcessClusterOptions options = nodes_elsewhere({"there"});
  options.log_folder = folder.string();
  {
    const auto cluster = start_processes(options);
    const auto group = cluster->spawn("resident", {.process = "own", .labels = "there"}, "talker");
    REQUIRE(cluster->ask<Total>(group[0], Add{1}, kPatience).get());
    (void)cluster->ask<void>(group[0], Throw{"last words"}, kPatience).get();
    REQUIRE(ask_until_answered(*cluster, group[0], Add{1}));
  }
  std::ifstream file(folder / "talker-0.out");
  std::stringstream text;
  text << file.rdbuf();
  CHECK_THAT(text.str(),
             Catch::Contains("talker/0 failed: internal: last words") && Catch::Contains("stopped: the run is over"));
  std::filesystem::remove_all(folder);
}

TEST_CASE("processes of a node that ends move to one with room, and the run goes on", "[cluster][processes][CL-1]") {
  const auto cluster = start_processes(nodes_elsewhere({"first", "second"}));
  REQUIRE(cluster->wait_for_nodes(kPatience));
  const auto group =
      cluster->spawn("resident", {.process = "own", .labels = "elsewhere", .restart_backoff_ms = 10}, "resident");
  const auto place = cluster->ask<Place>(group[0], Where{}, kPatience).get();
  REQUIRE(place);

  kill(static_cast<pid_t>(pid_of(*cluster, "agent/first")), SIGKILL);

  REQUIRE(wait_for([&] { return kill(static_cast<pid_t>(place->pid), 0) == -1; }));
  const auto later = ask_until_answered(*cluster, group[0], Add{1});
  REQUIRE(later);
  CHECK(later->incarnation == 2);
  for (const ProcessView& process : cluster->processes()) {
    if (process.entry.name == "resident/0") {
      CHECK(process.entry.node == "second");
    }
  }
  CHECK_FALSE(cluster->first_failure());
}

TEST_CASE("an agent elsewhere that is silent is declared dead", "[cluster][processes][CL-1]") {
  const auto cluster = start_processes(nodes_elsewhere({"there", "other"}));
  REQUIRE(cluster->wait_for_nodes(kPatience));
  const auto group =
      cluster->spawn("resident", {.process = "own", .labels = "elsewhere", .restart_backoff_ms = 10}, "resident");
  REQUIRE(cluster->ask<Total>(group[0], Add{1}, kPatience).get());
  const auto agent = static_cast<pid_t>(pid_of(*cluster, "agent/there"));

  kill(agent, SIGSTOP);

  CHECK(wait_for([&] { return kill(agent, 0) == -1; }));
  const auto later = ask_until_answered(*cluster, group[0], Add{1});
  REQUIRE(later);
  CHECK(later->incarnation == 2);
}

TEST_CASE("an object that was put on one node is there on the others, until its release",
          "[cluster][processes][objects][OR-1][OR-2]") {
  const auto cluster = start_processes(nodes_elsewhere({"first", "second"}));
  REQUIRE(cluster->wait_for_nodes(kPatience));
  const auto first = cluster->spawn("resident", {.process = "own", .labels = "first"}, "writer");
  const auto put = cluster->ask<PackRef>(first[0], PutPack{200'000}, kPatience).get();
  REQUIRE(put);

  const auto here = cluster->objects().get<PackedBatch>(put->ref);
  REQUIRE(here);
  CHECK((*here)->input_ids.size() == 200'000);
  CHECK((*here)->input_ids[199'999] == 199'999);
  const auto second = cluster->spawn("resident", {.count = 2, .process = "own", .labels = "second"}, "reader");
  for (const ActorRef& reader : *second) {
    CHECK(cluster->ask<Total>(reader, ReadPack{put->ref}, kPatience).get()->value == 200'000);
  }

  CHECK(cluster->objects().release_scope({ScopeKind::step, 1}) == 1);
  CHECK(wait_for([&] { return !cluster->ask<Total>(second[0], ReadPack{put->ref}, kPatience).get(); }));
  CHECK(wait_for([&] { return !cluster->ask<Total>(first[0], ReadPack{put->ref}, kPatience).get(); }));
}

TEST_CASE("an object that was lost with its node, or never put, is an error with the reason",
          "[cluster][processes][objects][error]") {
  const auto cluster = start_processes(nodes_elsewhere({"first", "second"}));
  REQUIRE(cluster->wait_for_nodes(kPatience));
  const auto group =
      cluster->spawn("resident", {.process = "own", .labels = "first", .restart_backoff_ms = 10}, "writer");
  const auto put = cluster->ask<PackRef>(group[0], PutPack{1000}, kPatience).get();
  REQUIRE(put);
  const auto place = cluster->ask<Place>(group[0], Where{}, kPatience).get();

  const auto next = cluster->objects().get<PackedBatch>({put->ref.high, put->ref.low + 1});
  REQUIRE_FALSE(next);
  CHECK_THAT(next.error().message, Catch::Contains("was never put"));
  const auto unknown = cluster->objects().get<PackedBatch>({4711, 1});
  REQUIRE_FALSE(unknown);
  CHECK_THAT(unknown.error().message, Catch::Contains("was put by no process of this run"));

  kill(static_cast<pid_t>(pid_of(*cluster, "agent/first")), SIGKILL);
  REQUIRE(wait_for([&] { return kill(static_cast<pid_t>(place->pid), 0) == -1; }));
  const auto lost = cluster->objects().get<PackedBatch>(put->ref);
  REQUIRE_FALSE(lost);
  CHECK_THAT(lost.error().message, Catch::Contains("was lost with node first"));
}

TEST_CASE("an object whose node is lost comes from a node with a copy; its release reaches the copies",
          "[cluster][processes][objects][OR-1][OR-2]") {
  const auto cluster = start_processes(nodes_elsewhere({"first", "second", "third"}));
  REQUIRE(cluster->wait_for_nodes(kPatience));
  const auto writer =
      cluster->spawn("resident", {.process = "own", .labels = "first", .restart_backoff_ms = 10}, "writer");
  const auto second = cluster->spawn("resident", {.process = "own", .labels = "second"}, "second");
  const auto third = cluster->spawn("resident", {.process = "own", .labels = "third"}, "third");
  const auto put = cluster->ask<PackRef>(writer[0], PutPack{100'000}, kPatience).get();
  REQUIRE(put);
  REQUIRE(cluster->ask<Total>(second[0], ReadPack{put->ref}, kPatience).get());
  const auto place = cluster->ask<Place>(writer[0], Where{}, kPatience).get();

  kill(static_cast<pid_t>(pid_of(*cluster, "agent/first")), SIGKILL);
  REQUIRE(wait_for([&] { return ask_until_answered(*cluster, writer[0], Add{0})->incarnation == 2; }));

  const auto read = cluster->ask<Total>(third[0], ReadPack{put->ref}, kPatience).get();
  REQUIRE(read);
  CHECK(read->value == 100'000);
  CHECK(cluster->objects().release(put->ref));
  for (const auto& reader : {second[0], third[0]}) {
    CHECK(wait_for([&] { return !cluster->ask<Total>(reader, ReadPack{put->ref}, kPatience).get(); }));
  }
}

TEST_CASE("whoever looks for an object of a node that is frozen is told once that node is declared dead",
          "[cluster][processes][objects][error][OR-1]") {
  const auto cluster = start_processes(nodes_elsewhere({"first"}));
  REQUIRE(cluster->wait_for_nodes(kPatience));
  const auto writer = cluster->spawn("resident", {.process = "own", .labels = "first"}, "writer");
  const auto put = cluster->ask<PackRef>(writer[0], PutPack{1000}, kPatience).get();
  REQUIRE(put);

  kill(static_cast<pid_t>(pid_of(*cluster, "agent/first")), SIGSTOP);

  const auto lost = cluster->objects().get<PackedBatch>(put->ref);
  REQUIRE_FALSE(lost);
  CHECK(lost.error().code == ErrorCode::not_found);
  CHECK_THAT(lost.error().message, Catch::Contains("was lost with node first"));
}

TEST_CASE("a node that does not come is named with what its command said", "[cluster][processes][error]") {
  ProcessClusterOptions options = nodes_elsewhere({"there"});
  options.remote["there"].command = {"sh", "-c", "echo ssh: no route to there >&2; exit 255"};
  const auto cluster = start_processes(options);
  const auto came = cluster->wait_for_nodes(kPatience);
  REQUIRE_FALSE(came);
  CHECK(came.error().message ==
        "1 of 2 nodes are missing; agent of node there: exited with code 255; its last line: ssh: no route to there");
}

TEST_CASE("inputs that are not there keep a run from starting, and nothing of it is left", "[cluster][error]") {
  ProcessClusterOptions options = nodes_elsewhere({"there"});
  options.links.ipc_folder =
      (std::filesystem::temp_directory_path() / ("memopd_none_" + std::to_string(getpid()))).string();
  options.inputs = {"no_such_model"};
  const auto cluster = make_process_cluster(options);
  REQUIRE_FALSE(cluster);
  CHECK_THAT(cluster.error().message, Catch::StartsWith("no_such_model: "));
  CHECK_FALSE(std::filesystem::exists(options.links.ipc_folder));
}

TEST_CASE("a run needs a node on its launcher's host", "[cluster][error]") {
  ProcessClusterOptions options = nodes_elsewhere({"there"});
  options.nodes.erase(options.nodes.begin());
  const auto cluster = make_process_cluster(options);
  REQUIRE_FALSE(cluster);
  CHECK(cluster.error().code == ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace memopd::testing

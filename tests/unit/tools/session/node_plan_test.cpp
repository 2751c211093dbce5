#include "tools/session/node_plan.hpp"

#include <catch2/catch.hpp>

#include "runtime/cluster/host_resources.hpp"

namespace memopd {
namespace {

std::vector<std::string> names_of(const std::vector<PlannedNode>& nodes) {
  std::vector<std::string> names;
  for (const PlannedNode& node : nodes) {
    names.push_back(node.capacity.name);
  }
  return names;
}

TEST_CASE("without [[node]] a run has this host, with what it has", "[session]") {
  const auto nodes = plan_nodes(Config{});
  REQUIRE(nodes);
  REQUIRE(nodes->size() == 1);
  CHECK(nodes->front().is_here());
  CHECK(nodes->front().capacity.cpus == read_host_resources().usable_cpus);
}

TEST_CASE("a pattern is one node for each host, named as its address without the user", "[session]") {
  Config config;
  config.node = {{.name = "head"}, {.address = "carol@w[08-10]", .cpus = 4, .labels = "worker, fast"}};
  const auto nodes = plan_nodes(config);
  REQUIRE(nodes);
  CHECK(names_of(*nodes) == std::vector<std::string>{"head", "w08", "w09", "w10"});
  CHECK((*nodes)[2].address == "carol@w09");
  CHECK((*nodes)[2].capacity.cpus == 4);
  CHECK((*nodes)[2].capacity.labels == std::vector<std::string>{"worker", "fast"});
  CHECK(remote_nodes(*nodes).size() == 3);
}

TEST_CASE("a node that is there twice, or no address, is refused", "[session][error]") {
  const auto message = [](std::vector<NodeConfig> tables) {
    Config config;
    config.node = std::move(tables);
    const auto nodes = plan_nodes(config);
    return nodes ? std::string("accepted") : nodes.error().message;
  };
  CHECK(message({{.address = "a"}, {.address = "bob@a"}}) == "two nodes are named \"a\"");
  CHECK_THAT(message({{.address = "-oProxyCommand=id"}}), Catch::Contains("expected [user@]host"));
  CHECK_THAT(message({{.address = "w[3-1]"}}), Catch::Contains("rising range"));
}

TEST_CASE("--nodes puts hosts in the place of addresses; the last table serves for the rest", "[session]") {
  Config config;
  config.node = {{.name = "x", .labels = "head"}, {.address = "w[1-2]", .cpus = 3, .labels = "worker"}};
  REQUIRE(use_hosts(config, "localhost,h[2-4]"));
  REQUIRE(config.node.size() == 4);
  CHECK(config.node[0].address == "local");  // this host under one of its names
  CHECK(config.node[0].name == "localhost");
  CHECK(config.node[0].labels == "head");
  CHECK(config.node[3].address == "h4");
  CHECK(config.node[3].labels == "worker");
  CHECK(config.node[3].cpus == 3);
  CHECK_FALSE(use_hosts(config, "a,,b"));
}

TEST_CASE("a command on a node is executed here as it is, elsewhere through ssh, pushed from the home folder",
          "[session]") {
  PlannedNode here;
  here.program = "/opt/memopd-cluster";
  CHECK(command_on(here, {"host"}) == std::vector<std::string>{"/opt/memopd-cluster", "host"});
  PlannedNode there = here;
  there.address = "h2";
  CHECK(command_on(there, {"host"}).back() == "exec '/opt/memopd-cluster' 'host'");
  there.pushed = ".cache/memopd/b1";
  CHECK_THAT(command_on(there, {"host"}).back(),
             Catch::Contains("'.cache/memopd/b1'") && Catch::EndsWith(" 'host'") && Catch::Contains("LD_LIBRARY_PATH"));
}

}  // namespace
}  // namespace memopd

// The pair matrix of `doctor` between nodes whose agents are started by a command, as on other hosts.
#include "tools/memopd_cluster/pair_probe.hpp"

#include <catch2/catch.hpp>

#include "runtime/cluster/head.hpp"

namespace memopd {
namespace {

using namespace std::chrono_literals;

const std::string kProgram = std::string(MEMOPD_BINARY_DIR) + "/bin/memopd-cluster";

ProcessClusterOptions two_nodes() {
  ProcessClusterOptions options;
  options.links.tcp_host = "127.0.0.1";
  options.links.dead_after_ms = 20'000;
  options.links.lease_ms = 40'000;
  options.agent_command = {kProgram, "memopd-agent"};
  options.worker_command = {kProgram, "memopd-worker"};
  options.nodes = {{"here", 2, 1e9, {"here"}}, {"there", 2, 1e9, {"there"}}};
  options.remote["there"] = {{kProgram, "memopd-agent", "agent/there"}, "127.0.0.1"};
  return options;
}

TEST_CASE("a pair of nodes is measured in both directions on the links of the run", "[tools][pain:L06]") {
  auto cluster = make_process_cluster(two_nodes());
  REQUIRE(cluster);
  REQUIRE((*cluster)->wait_for_nodes(120s));
  for (const char* node : {"here", "there"}) {
    SpawnOptions place;
    place.process = "own";
    place.blocking = true;
    place.labels = node;
    REQUIRE((*cluster)->spawn(kPairProbe, place, std::string("probe_") + node));
  }
  for (const auto& [from, to] : {std::pair("here", "there"), std::pair("there", "here")}) {
    const auto probe = (*cluster)->find(std::string("probe_") + from);
    const auto measured =
        (*cluster)->ask<PairMeasured>((*probe)[0], MeasurePair{std::string("probe_") + to}, 120s).get();
    REQUIRE(measured);
    CHECK(measured->round_trip_us > 0);
    CHECK(measured->mb_per_s > 0);
  }
  const auto probe = (*cluster)->find("probe_here");
  const auto nobody = (*cluster)->ask<PairMeasured>((*probe)[0], MeasurePair{"probe_nowhere"}, 120s).get();
  REQUIRE_FALSE(nobody);
  CHECK(nobody.error().code == ErrorCode::not_found);
}

}  // namespace
}  // namespace memopd

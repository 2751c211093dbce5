// What the tests of processes share.
#pragma once

#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "runtime/cluster/head.hpp"
#include "tests/unit/runtime/cluster/cluster_test_actors.hpp"

namespace memopd::testing {

/// Far: no test that expects an answer depends on the load of the machine.
inline constexpr std::chrono::milliseconds kPatience{120'000};

/// Short intervals, so that silence is noticed soon; workers are cluster_test_program.
[[nodiscard]] ProcessClusterOptions test_options();
[[nodiscard]] std::unique_ptr<HeadCluster> start_processes(const ProcessClusterOptions& options = test_options());

/// Whether `condition` came true within kPatience.
[[nodiscard]] bool wait_for(const std::function<bool()>& condition);
/// Asks again while the target is down, as a caller that may.
[[nodiscard]] Expected<Total> ask_until_answered(Cluster& cluster, const ActorRef& actor, const Add& message);
[[nodiscard]] ProcessState state_of(const HeadCluster& cluster, const std::string& process);
/// 0: no such process.
[[nodiscard]] std::int64_t pid_of(const HeadCluster& cluster, const std::string& process);

}  // namespace memopd::testing

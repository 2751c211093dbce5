#include "tests/unit/runtime/cluster/test_processes.hpp"

#include <thread>

namespace memopd::testing {

ProcessClusterOptions test_options() {
  const std::string program = std::string(MEMOPD_BINARY_DIR) + "/bin/cluster_test_program";
  ProcessClusterOptions options;
  options.links.heartbeat_ms = 100;
  options.links.dead_after_ms = 1500;
  options.links.lease_ms = 3000;
  options.agent_command = {program, "memopd-agent"};
  options.worker_command = {program, "memopd-worker"};
  return options;
}

std::unique_ptr<HeadCluster> start_processes(const ProcessClusterOptions& options) {
  auto cluster = make_process_cluster(options);
  if (!cluster) {
    FAIL(cluster.error().message);
  }
  return *std::move(cluster);
}

bool wait_for(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

Expected<Total> ask_until_answered(Cluster& cluster, const ActorRef& actor, const Add& message) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    auto answer = cluster.ask<Total>(actor, message, kPatience).get();
    if (answer || answer.error().code != ErrorCode::target_down || std::chrono::steady_clock::now() > end) {
      return answer;
    }
  }
}

ProcessState state_of(const HeadCluster& cluster, const std::string& process) {
  for (const ProcessView& view : cluster.processes()) {
    if (view.entry.name == process) {
      return view.entry.state;
    }
  }
  return ProcessState::ended;
}

std::int64_t pid_of(const HeadCluster& cluster, const std::string& process) {
  for (const ProcessView& view : cluster.processes()) {
    if (view.entry.name == process) {
      return view.pid;
    }
  }
  return 0;
}

}  // namespace memopd::testing

// NodeAgents: the head's agents, one per node: started here or on other hosts, judged, started again when they end.
//
// NA-1  an agent on another host that was heard of and is silent for dead_after is declared dead: what started it is killed.
//       If this process itself stood still, silence is counted anew.
// NA-2  an agent is started again when its node is free of its predecessor's processes: here, when they are gone; elsewhere,
//       after their lease, unless the agent said itself that it ended.
// NA-3  three restarts in a minute are enough: then the node is given up, and tried again every 30 s as long as the run lasts.
// Internal to this folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/cluster/head.hpp"
#include "runtime/cluster/messages.hpp"
#include "runtime/cluster/process_table.hpp"
#include "runtime/cluster/restart_policy.hpp"

namespace memopd {

class NodeAgents {
 public:
  /// Called without a lock of this class, on a thread of the table or that of tick().
  struct Handlers {
    /// The agent of `node` has ended, and with it every process there.
    std::function<void(const std::string& node, const std::string& cause)> on_down = nullptr;
    /// It will not be back soon.
    std::function<void(const std::string& node, const std::string& cause)> on_given_up = nullptr;
  };

  /// @error invalid_argument, io_error  as ProcessTable::start
  static Expected<std::unique_ptr<NodeAgents>> make(const ProcessClusterOptions& options, Handlers handlers);
  ~NodeAgents();

  /// Starts every agent, once. @param start  of the agents, but for who they are
  /// @error io_error, not_found  of the first agent that cannot be executed here
  Expected<void> start_all(ProcessStart start);
  [[nodiscard]] bool is_remote(const std::string& node) const { return options_.remote.contains(node); }
  /// A sign of life came over its link.
  void heard(const std::string& node);
  /// Processes of this host that ended with their agent; its next start waits for them.
  void wait_for(const std::string& node, std::vector<ProcessMark> leftovers);
  /// Judges silence, starts what is due. On one thread.
  void tick();
  /// No more restarts; ends are as asked for.
  void end_restarts();
  /// Gives the agents, who were told to stop, `grace` to end; then ends them.
  void shutdown(std::chrono::milliseconds grace);
  [[nodiscard]] std::vector<ProcessSnapshot> snapshot() const { return table_->snapshot(); }

 private:
  using Clock = std::chrono::steady_clock;

  struct Agent {
    std::uint64_t incarnation = 0;
    RestartTracker restarts{RestartPolicy{3, std::chrono::seconds(60), std::chrono::milliseconds(100)}};
    Clock::time_point heard{};  ///< zero before its first sign of life
    Clock::time_point due{};    ///< of its next start; zero while it runs
    std::vector<ProcessMark> leftovers;
  };

  NodeAgents(const ProcessClusterOptions& options, Handlers handlers);

  Expected<void> start_agent(const std::string& node);
  void ended(const std::string& name, const ExitReport& report);
  [[nodiscard]] std::vector<std::pair<std::string, std::int64_t>> silent_nodes();
  [[nodiscard]] std::vector<std::string> due_nodes();

  const ProcessClusterOptions options_;
  ProcessStart start_;
  const Handlers handlers_;
  std::mutex mutex_;  // guards what follows, but for the table
  std::map<std::string, Agent> agents_;
  Clock::time_point last_tick_{};
  bool is_ending_ = false;
  std::unique_ptr<ProcessTable> table_;
};

}  // namespace memopd

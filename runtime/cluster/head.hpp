// The head: a Cluster over several processes. It lives in the launcher, holds the directory and the supervisor, starts an
// agent per node and through them the workers; its end is the end of the run.
//
// A program that uses it starts itself again as agent and worker: call run_as_child() first in main.
// HD-1  the end of the head, however it comes, ends every process of the run within lease_ms (CL-4).
// HD-2  first_failure() is the first cause, whatever came of it later.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/actor/cluster.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/base/log.hpp"
#include "runtime/cluster/messages.hpp"
#include "runtime/cluster/placement.hpp"

namespace memopd {

/// How the agent of another host is started, and how its processes find this one.
struct RemoteNode {
  std::vector<std::string> command;  ///< executed here; its standard input and output are the agent's (ssh ..)
  std::string address;               ///< of the host; decides which of our addresses its processes dial
};

struct ProcessClusterOptions {
  LinkSettings links = {};                        ///< ipc_folder "" = a new one below the temporary folder
  std::vector<NodeCapacity> nodes = {};           ///< none = this host, with what it has
  std::map<std::string, RemoteNode> remote = {};  ///< by name of a node; the others are this host
  std::vector<std::string> remote_worker_command = {"/proc/self/exe", "memopd-worker"};  ///< of agents elsewhere
  std::vector<std::string> inputs = {};             ///< files and folders that other hosts get (staging.hpp)
  std::chrono::milliseconds start_timeout{60'000};  ///< for a process to report itself
  std::string log_folder = "";                      ///< "" = output of the processes is dropped
  std::vector<std::string> agent_command = {};      ///< none = this program, as run_as_child() expects it
  std::vector<std::string> worker_command = {};     ///< likewise
  std::int32_t num_threads = 2;                     ///< of each process's scheduler; >= 1
  std::string policy = "sharing";                   ///< as LocalClusterOptions
  /// Of the telemetry of other processes: topology(), processes() and on_event live by it. 0 = none.
  std::chrono::milliseconds report_interval{500};
  std::function<void(const LogEvent&)> on_event = nullptr;  ///< of other processes; none = this one's own log
};

/// What an operator sees of one process.
struct ProcessView {
  ProcessEntry entry;
  std::string host;
  std::int64_t pid = 0;
  std::int64_t pgid = 0;
  std::int64_t start_ticks = 0;
  std::int32_t num_restarts = 0;
  double silent_ms = 0;
  std::int64_t rss_bytes = 0;
  double cpu_s = 0;
  std::int64_t num_refused = 0;
  std::vector<std::string> actors;
};

class HeadCluster : public Cluster {
 public:
  /// Every process but this one, agents included.
  [[nodiscard]] virtual std::vector<ProcessView> processes() const = 0;
  /// Blocks until the agent of every node has reported itself. Call it before spawning: without it, what was meant for a node
  /// that does not come goes to others.
  /// @error timeout, target_down  names who is missing, and how the last attempt there ended
  virtual Expected<void> wait_for_nodes(std::chrono::milliseconds patience) = 0;
  /// Blocks until every process has made its actors, or `patience` is over, or the run has failed.
  /// @error timeout     names who is missing and since when
  /// @error target_down the first failure
  virtual Expected<void> wait_until_started(std::chrono::milliseconds patience) = 0;
  /// Of the first failure, as a shell shows it; 0 without one.
  [[nodiscard]] virtual int failure_exit_code() const = 0;
};

/// @error invalid_argument, io_error, refused  as the transport and the first agent say
[[nodiscard]] Expected<std::unique_ptr<HeadCluster>> make_process_cluster(const ProcessClusterOptions& options);

/// In a process that was started as an agent or a worker: serves, and never returns. Else: returns at once.
void run_as_child(int argc, char** argv);

}  // namespace memopd

// HeadState: what the head knows and decides; the supervisor, what each process is to host, who is linked, what they report.
//
// Under one lock of the head; sends, never waits. Internal to this folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/actor/topology.hpp"
#include "runtime/cluster/head.hpp"
#include "runtime/cluster/object_relay.hpp"
#include "runtime/cluster/process_cluster.hpp"
#include "runtime/cluster/supervisor.hpp"
#include "runtime/transport/transport.hpp"
#include "runtime/wire/frame.hpp"

namespace memopd {

class HeadState {
 public:
  static constexpr std::uint64_t kLauncherStore = 1;  ///< of the objects that the launcher puts

  HeadState(const ProcessClusterOptions& options, ProcessStart worker_start, ProcessEntry self);

  void connect(Transport& transport, ProcessCluster& cluster);
  /// What agents of other hosts get first.
  void set_inputs(StageFiles inputs) { inputs_ = std::move(inputs); }

  /// Plans a group whose members live elsewhere. @error as Cluster::spawn; overloaded: no node has room
  Expected<void> spawn(const HostActors& members, const SpawnOptions& options);
  /// A group that lives here. @error already_exists
  Expected<void> announce(std::vector<ActorEntry> members);

  void peer_up(const Peer& peer);
  void peer_down(const Peer& peer, const Error& reason);
  Expected<void> take(const Peer& peer, const FrameView& frame, std::vector<LogEvent>& events);
  void node_down(const std::string& node, const std::string& reason);
  void tick();
  /// Asks every worker to end.
  void stop_workers(const std::string& reason);
  void kill_workers(const std::string& reason);
  void stop_agents();

  /// Nodes whose agents have not said hello.
  [[nodiscard]] std::vector<std::string> missing_nodes() const;
  void add_reports(Topology& topology) const;
  [[nodiscard]] std::vector<ProcessView> processes() const;
  [[nodiscard]] const Supervisor& supervisor() const { return supervisor_; }
  [[nodiscard]] std::string describe_missing() const { return supervisor_.describe_missing(now()); }
  [[nodiscard]] static std::chrono::nanoseconds now() { return std::chrono::steady_clock::now().time_since_epoch(); }

 private:
  struct Worker {
    std::vector<HostActors> groups;
    std::optional<InstanceId> linked;
    std::uint64_t sent_version = 0;
    ProcessReport report;
    ProcessStarted started;
    ProcessUsage usage;
  };
  struct Agent {
    std::optional<InstanceId> linked;
    AgentHello hello;
  };

  template <Message M>
  void send(const std::optional<InstanceId>& to, const M& message);
  void act();
  void broadcast();
  Expected<void> take_from_worker(const Peer& peer, const FrameView& frame, std::vector<LogEvent>& events);
  Expected<void> take_from_agent(const Peer& peer, const FrameView& frame);
  void keep_output(const ProcessOutput& output);
  Expected<void> take_for_objects(const std::string& node, const FrameView& frame);
  [[nodiscard]] std::vector<ProcessPlan> plans_for(const HostActors& members, const SpawnOptions& options) const;

  const std::int32_t heartbeat_ms_;
  const std::string log_folder_;
  const std::set<std::string> remote_nodes_;
  const std::string own_node_;
  StageFiles inputs_;
  const ProcessStart worker_start_;
  Transport* transport_ = nullptr;
  ProcessCluster* cluster_ = nullptr;
  Supervisor supervisor_;
  ObjectRelay relay_;
  std::map<std::string, Worker> workers_;
  std::map<std::string, Agent> agents_;  ///< by node
  std::uint64_t own_version_ = 0;
  bool has_lost_output_ = false;
  std::chrono::nanoseconds next_lease_{0};
};

/// "agent/node1" -> "node1"; empty for anybody else.
[[nodiscard]] std::string node_of_agent(const std::string& process);

}  // namespace memopd

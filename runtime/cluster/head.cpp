// The head as a class: its threads, its agents, the way to its end.
#include "runtime/cluster/head.hpp"
// Length: one class, private to this file.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/cluster/agent.hpp"
#include "runtime/cluster/detail/scratch_folder.hpp"
#include "runtime/cluster/head_state.hpp"
#include "runtime/cluster/host_resources.hpp"
#include "runtime/cluster/node_agents.hpp"
#include "runtime/cluster/process_link.hpp"
#include "runtime/cluster/process_table.hpp"
#include "runtime/cluster/reach.hpp"
#include "runtime/cluster/staging.hpp"
#include "runtime/cluster/worker.hpp"
#include "runtime/objects/shared_object_store.hpp"

namespace memopd {
namespace {

constexpr const char* kAgentWord = "memopd-agent";
constexpr const char* kWorkerWord = "memopd-worker";
constexpr std::chrono::milliseconds kTurn{20};

std::vector<NodeCapacity>::const_iterator own_node_of(const ProcessClusterOptions& options) {
  return std::find_if(options.nodes.begin(), options.nodes.end(),
                      [&](const NodeCapacity& node) { return !options.remote.contains(node.name); });
}

/// Fills in what was left open.
/// @error invalid_argument  this host is none of the nodes
/// @error io_error, not_found
Expected<ProcessClusterOptions> complete(ProcessClusterOptions options) {
  if (options.nodes.empty()) {
    const HostResources host = read_host_resources();
    options.nodes.push_back({"local", host.usable_cpus, static_cast<double>(host.memory_limit_bytes), {}});
  }
  if (own_node_of(options) == options.nodes.end()) {
    return unexpected(ErrorCode::invalid_argument, "none of the nodes is this host: launch on one of them");
  }
  if (!options.remote.empty() && options.links.tcp_host.empty()) {
    auto address = own_address_towards(host_of_address(options.remote.begin()->second.address));
    if (!address) {
      return unexpected(address.error());
    }
    options.links.tcp_host = *std::move(address);
  }
  if (options.agent_command.empty()) {
    options.agent_command = {"/proc/self/exe", kAgentWord};
  }
  if (options.worker_command.empty()) {
    options.worker_command = {"/proc/self/exe", kWorkerWord};
  }
  if (options.links.ipc_folder.empty()) {
    const auto folder = detail::make_scratch_folder();
    MEMOPD_RETURN_IF_ERROR(folder);
    options.links.ipc_folder = folder->string();
  }
  return options;
}

class Head final : public HeadCluster {
 public:
  explicit Head(ProcessClusterOptions options) : options_(std::move(options)) {}

  ~Head() override {
    if (state_) {  // else it never began
      (void)shutdown(kShutdownPatience);
    }
    if (cluster_) {
      cluster_->links().close();
    }
    transport_.reset();  // its callbacks use the state
    std::error_code ignored;
    std::filesystem::remove_all(options_.links.ipc_folder, ignored);
  }

  Expected<void> begin() {
    auto key = RunKey::generate();
    if (!key) {
      return unexpected(key.error());
    }
    LocalClusterOptions local;
    local.threads = options_.num_threads;
    local.policy = options_.policy;
    auto scheduler = make_local_cluster_checked(local);
    if (!scheduler) {
      return unexpected(scheduler.error());
    }
    cluster_ = std::make_unique<ProcessCluster>(*std::move(scheduler), kLauncher, 1, make_local_object_store());
    cluster_->set_spawner([this](std::string_view actor, const SpawnOptions& options, std::string_view group,
                                 Payload init) { return spawn_any(actor, options, group, std::move(init)); });
    cluster_->set_elsewhere([this](Topology& topology) { add_reports(topology); }, [this] { return failure(); });
    NodeAgents::Handlers on;
    on.on_down = [this](const std::string& node, const std::string& cause) { node_down(node, cause); };
    on.on_given_up = [this](const std::string& node, const std::string& cause) { node_given_up(node, cause); };
    auto agents = NodeAgents::make(options_, std::move(on));
    if (!agents) {
      return unexpected(agents.error());
    }
    agents_ = *std::move(agents);
    MEMOPD_RETURN_IF_ERROR(start_transport(*key));
    return start_agents();
  }

  // Cluster.
  [[nodiscard]] Expected<ActorGroup> find(std::string_view group) const override { return cluster_->find(group); }
  [[nodiscard]] ObjectStore& objects() override { return cluster_->objects(); }
  [[nodiscard]] Topology topology() const override { return cluster_->topology(); }
  void stop(const ActorRef& actor, std::string_view reason) override { cluster_->stop(actor, reason); }
  [[nodiscard]] std::optional<Down> first_failure() const override { return cluster_->first_failure(); }
  std::shared_ptr<detail::FutureState> ask_any(const ActorRef& target, Payload message,
                                               std::chrono::milliseconds timeout) override {
    return cluster_->ask_any(target, std::move(message), timeout);
  }
  Expected<void> tell_any(const ActorRef& target, Payload message) override {
    return cluster_->tell_any(target, std::move(message));
  }
  SpawnedGroup spawn_any(std::string_view actor, const SpawnOptions& options, std::string_view group,
                         Payload init) override;
  ShutdownReport shutdown(std::chrono::milliseconds patience) override;

  // HeadCluster.
  [[nodiscard]] std::vector<ProcessView> processes() const override;
  Expected<void> wait_for_nodes(std::chrono::milliseconds patience) override;
  Expected<void> wait_until_started(std::chrono::milliseconds patience) override;
  [[nodiscard]] int failure_exit_code() const override {
    const std::lock_guard lock(mutex_);
    const auto& report = state_->supervisor().failure() ? state_->supervisor().failure() : node_failure_;
    return report ? report->exit_code : 0;
  }

 private:
  Expected<void> start_transport(const RunKey& key);
  Expected<void> start_agents();
  /// The node that this process runs on.
  [[nodiscard]] const std::string& own_node() const { return own_node_of(options_)->name; }
  void node_down(const std::string& node, const std::string& cause);
  void node_given_up(const std::string& node, const std::string& cause);
  [[nodiscard]] SpawnedGroup spawn_here(std::string_view actor, const SpawnOptions& options, std::string_view group,
                                        Payload init);
  Expected<void> take(const Peer& peer, std::span<const std::byte> body);
  void serve();
  void add_reports(Topology& topology) const {
    const std::lock_guard lock(mutex_);
    state_->add_reports(topology);
  }
  [[nodiscard]] std::optional<Down> failure() const {
    const std::lock_guard lock(mutex_);
    const auto& report = state_->supervisor().failure() ? state_->supervisor().failure() : node_failure_;
    if (!report) {
      return std::nullopt;
    }
    const std::string name = report->process + ": ";
    return Down{report->process, report->cause.starts_with(name) ? report->cause.substr(name.size()) : report->cause,
                true};
  }
  bool wait_for_workers(std::chrono::milliseconds patience);
  Expected<void> connect_objects();

  ProcessClusterOptions options_;
  ProcessStart start_;  ///< of agents and workers, but for who they are
  std::unique_ptr<ProcessCluster> cluster_;
  std::unique_ptr<Transport> transport_;
  mutable std::mutex mutex_;  // guards the state and what follows it
  std::condition_variable changed_;
  std::unique_ptr<HeadState> state_;
  std::map<std::string, std::string> node_causes_;  ///< how the last agent of a node ended
  std::optional<FailureReport> node_failure_;
  bool is_ending_ = false;
  std::mutex shutdown_mutex_;
  std::unique_ptr<NodeAgents> agents_;
  std::atomic<bool> has_ended_{false};
  std::thread thread_;
};

Expected<void> Head::start_transport(const RunKey& key) {
  start_.key = key.text();
  start_.run = make_random_id<RunId>();
  start_.links = options_.links;
  start_.log_folder = options_.log_folder;
  start_.worker_command = options_.worker_command;
  start_.num_threads = options_.num_threads;
  start_.report_interval_ms = static_cast<std::int32_t>(options_.report_interval.count());
  auto transport_settings = transport_options(key, start_.run, kLauncher, 1, options_.links);
  start_.head_instance = transport_settings.self.instance;
  TransportHandlers on;
  on.on_peer_up = [this](const Peer& peer) {
    cluster_->links().peer_up(peer);
    const std::lock_guard lock(mutex_);
    if (state_) {
      state_->peer_up(peer);
    }
  };
  on.on_peer_down = [this](const Peer& peer, const Error& reason) {
    cluster_->links().peer_down(peer, reason);
    const std::lock_guard lock(mutex_);
    if (state_) {
      state_->peer_down(peer, reason);
    }
    changed_.notify_all();
  };
  on.on_dial_failed = [this](const DialRequest& request, const Error& error) {
    cluster_->links().dial_failed(request, error);
  };
  on.on_message = [this](const Peer& peer, std::span<const std::byte> body) { return take(peer, body); };
  auto transport = Transport::start(std::move(transport_settings), std::move(on));
  if (!transport) {
    return unexpected(transport.error());
  }
  transport_ = *std::move(transport);
  start_.head_endpoints = transport_->endpoints();
  start_.head_node = own_node();
  cluster_->links().connect(*transport_);
  ProcessEntry self{kLauncher, own_node(), ProcessState::running, 1, start_.head_instance, transport_->endpoints(), ""};
  const auto files = list_inputs(options_.remote.empty() ? std::vector<std::string>() : options_.inputs);
  MEMOPD_RETURN_IF_ERROR(files);
  auto inputs = offer_files(*files, transport_->bulk());
  MEMOPD_RETURN_IF_ERROR(inputs);
  const std::lock_guard lock(mutex_);
  state_ = std::make_unique<HeadState>(options_, start_, std::move(self));
  state_->set_inputs(*std::move(inputs));
  state_->connect(*transport_, *cluster_);
  return {};
}

Expected<void> Head::start_agents() {
  MEMOPD_RETURN_IF_ERROR(agents_->start_all(start_));
  thread_ = std::thread([this] { serve(); });
  return connect_objects();
}

Expected<void> Head::connect_objects() {
  SharedStoreOptions objects;
  objects.socket = object_socket_of(options_.links, own_node());
  objects.store_id = HeadState::kLauncherStore;
  objects.patience = std::chrono::seconds(10);
  auto store = connect_object_store(objects);
  if (!store) {
    return unexpected(store.error());
  }
  cluster_->set_objects(*std::move(store));
  return {};
}

void Head::node_down(const std::string& node, const std::string& cause) {
  const std::lock_guard lock(mutex_);
  if (is_ending_) {
    return;
  }
  node_causes_[node] = cause;
  std::vector<ProcessMark> leftovers;
  for (const ProcessView& process : state_->processes()) {
    if (process.entry.node == node && process.pid > 0 && !options_.remote.contains(node)) {
      leftovers.push_back({static_cast<pid_t>(process.pid), static_cast<pid_t>(process.pgid),
                           static_cast<std::uint64_t>(process.start_ticks)});
      (void)signal_group(leftovers.back(), SIGKILL);  // on their way out already, by their lifelines
    }
  }
  agents_->wait_for(node, std::move(leftovers));
  state_->node_down(node, cause);
  changed_.notify_all();
}

void Head::node_given_up(const std::string& node, const std::string& cause) {
  const std::lock_guard lock(mutex_);
  const std::string waiting = state_->supervisor().describe_bound_to(node);
  log_warning("cluster", "node_given_up", {{"node", node}, {"waiting", waiting}});
  if (!is_ending_ && !waiting.empty() && !node_failure_) {
    node_failure_ = FailureReport{"agent/" + node, cause + "; no other node has room for " + waiting, 5};
    changed_.notify_all();
  }
}

Expected<void> Head::take(const Peer& peer, std::span<const std::byte> body) {
  const auto frame = parse_frame(body);
  if (!frame) {
    return unexpected(frame.error());
  }
  Expected<void> result;
  if (cluster_->links().take(peer, *frame, result)) {
    return result;
  }
  if (const std::string node = node_of_agent(peer.identity.role); !node.empty()) {
    agents_->heard(node);
  }
  std::vector<LogEvent> events;
  {
    const std::lock_guard lock(mutex_);
    result = state_->take(peer, *frame, events);
    changed_.notify_all();
  }
  for (const LogEvent& event : events) {
    options_.on_event ? options_.on_event(event) : log_event(event);
  }
  return result;
}

void Head::serve() {
  while (!has_ended_) {
    std::this_thread::sleep_for(kTurn);
    cluster_->links().tick();
    {
      const std::lock_guard lock(mutex_);
      state_->tick();
    }
    agents_->tick();
  }
}

SpawnedGroup Head::spawn_here(std::string_view actor, const SpawnOptions& options, std::string_view group,
                              Payload init) {
  HostActors members{std::string(actor),
                     std::string(group),
                     {},
                     options.count,
                     options.blocking,
                     options.max_mailbox,
                     init.type != nullptr,
                     {},
                     0,
                     {}};
  std::vector<ActorEntry> entries;
  for (std::int32_t rank = 0; rank < options.count; ++rank) {
    members.ranks.push_back(rank);
    entries.push_back({members.group + "/" + std::to_string(rank), members.group, members.actor, rank, options.count,
                       options.blocking, options.max_mailbox, kLauncher});
  }
  if (init.type != nullptr) {
    members.init_message = init.type->name.name;
    members.init_version = init.type->name.version;
    members.init_body = init.type->encode(init.value.get());
  }
  {
    const std::lock_guard lock(mutex_);
    if (!state_->supervisor().directory().group(group).empty()) {
      return unexpected(ErrorCode::already_exists, "a group is named \"" + members.group + "\" already");
    }
  }
  MEMOPD_RETURN_IF_ERROR(cluster_->host(members, 1));
  {
    const std::lock_guard lock(mutex_);
    MEMOPD_RETURN_IF_ERROR(state_->announce(std::move(entries)));
  }
  auto found = cluster_->find(group);
  return found ? SpawnedGroup(*std::move(found)) : SpawnedGroup(unexpected(found.error()));
}

SpawnedGroup Head::spawn_any(std::string_view actor, const SpawnOptions& options, std::string_view group,
                             Payload init) {
  MEMOPD_RETURN_IF_ERROR(cluster_->core().check_spawn(actor, options, group, init));
  if (options.process.empty() || options.process == kLauncher) {
    return spawn_here(actor, options, group, std::move(init));
  }
  HostActors members{std::string(actor),
                     std::string(group),
                     {},
                     options.count,
                     options.blocking,
                     options.max_mailbox,
                     init.type != nullptr,
                     {},
                     0,
                     {}};
  for (std::int32_t rank = 0; rank < options.count; ++rank) {
    members.ranks.push_back(rank);
  }
  if (init.type != nullptr) {
    members.init_message = init.type->name.name;
    members.init_version = init.type->name.version;
    members.init_body = init.type->encode(init.value.get());
  }
  {
    const std::lock_guard lock(mutex_);
    MEMOPD_RETURN_IF_ERROR(state_->spawn(members, options));
  }
  auto found = cluster_->find(group);
  return found ? SpawnedGroup(*std::move(found)) : SpawnedGroup(unexpected(found.error()));
}

Expected<void> Head::wait_for_nodes(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  const auto is_over = [this] {
    const auto missing = state_->missing_nodes();
    return std::all_of(missing.begin(), missing.end(),
                       [this](const std::string& node) { return node_causes_.contains(node); });
  };
  std::int64_t bytes_sent = -1;  // while input files flow, patience begins anew
  while (!changed_.wait_for(lock, patience, is_over) && transport_->bulk().counters().bytes_sent > bytes_sent) {
    bytes_sent = transport_->bulk().counters().bytes_sent;
  }
  const auto missing = state_->missing_nodes();
  if (missing.empty()) {
    return {};
  }
  std::string text =
      std::to_string(missing.size()) + " of " + std::to_string(options_.nodes.size()) + " nodes are missing";
  for (const std::string& node : missing) {
    const auto cause = node_causes_.find(node);
    text += "; " + (cause != node_causes_.end()
                        ? cause->second
                        : "agent of node " + node + ": not linked after " + std::to_string(patience.count() / 1000) +
                              " s: does a firewall keep it from dialling " +
                              endpoint_for(transport_->endpoints(), node == own_node()) + "?");
  }
  return unexpected(node_causes_.empty() ? ErrorCode::timeout : ErrorCode::target_down, text);
}

Expected<void> Head::wait_until_started(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  const auto is_over = [this] {
    return state_->describe_missing().empty() || state_->supervisor().failure() || node_failure_;
  };
  const bool was_over = changed_.wait_for(lock, patience, is_over);
  if (const auto& failure = state_->supervisor().failure() ? state_->supervisor().failure() : node_failure_; failure) {
    return unexpected(ErrorCode::target_down, failure->cause);
  }
  return was_over ? Expected<void>()
                  : Expected<void>(unexpected(ErrorCode::timeout, "not started after " +
                                                                      std::to_string(patience.count() / 1000) +
                                                                      " s: " + state_->describe_missing()));
}

std::vector<ProcessView> Head::processes() const {
  std::vector<ProcessView> views;
  const auto agents = agents_->snapshot();
  const std::lock_guard lock(mutex_);
  views = state_->processes();
  for (const auto& child : agents) {
    ProcessView view;
    view.entry.name = child.name;
    view.entry.node = node_of_agent(child.name);
    view.entry.state = ProcessState::running;
    view.pid = child.mark.pid;
    view.pgid = child.mark.pgid;
    view.start_ticks = static_cast<std::int64_t>(child.mark.start_ticks);
    view.silent_ms = static_cast<double>(child.silent_ms);
    view.rss_bytes = child.rss_bytes;
    view.cpu_s = child.cpu_s;
    views.push_back(std::move(view));
  }
  return views;
}

bool Head::wait_for_workers(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience, [this] { return state_->supervisor().alive().empty(); });
}

ShutdownReport Head::shutdown(std::chrono::milliseconds patience) {
  MEMOPD_CHECK(detail::current_cell() == nullptr, "shutdown inside an actor");
  const std::lock_guard shutdown_lock(shutdown_mutex_);
  ShutdownReport report;
  if (has_ended_) {
    return cluster_->shutdown(patience);
  }
  agents_->end_restarts();
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    state_->stop_workers("the run is over");
  }
  if (!wait_for_workers(patience + std::chrono::milliseconds(500))) {
    const std::lock_guard lock(mutex_);
    report.survivors = state_->supervisor().alive();
    state_->kill_workers("still there " + std::to_string(patience.count()) + " ms after it was told to stop");
  }
  (void)wait_for_workers(std::chrono::seconds(2));
  const ShutdownReport own = cluster_->shutdown(patience);
  report.survivors.insert(report.survivors.end(), own.survivors.begin(), own.survivors.end());
  {
    const std::lock_guard lock(mutex_);
    state_->stop_agents();
  }
  agents_->shutdown(std::chrono::seconds(3));
  has_ended_ = true;
  if (thread_.joinable()) {
    thread_.join();
  }
  return report;
}

}  // namespace

Expected<std::unique_ptr<HeadCluster>> make_process_cluster(const ProcessClusterOptions& options) {
  auto completed = complete(options);
  if (!completed) {
    return unexpected(completed.error());
  }
  auto head = std::make_unique<Head>(*std::move(completed));
  MEMOPD_RETURN_IF_ERROR(head->begin());
  return std::unique_ptr<HeadCluster>(std::move(head));
}

void run_as_child(int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word == kAgentWord) {
    run_agent();
  } else if (word == kWorkerWord) {
    run_worker();
  }
}

}  // namespace memopd

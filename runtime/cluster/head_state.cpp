#include "runtime/cluster/head_state.hpp"
// Length: one class, internal to this folder.

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/cluster/process_link.hpp"
#include "runtime/cluster/process_output.hpp"

namespace memopd {
namespace {

constexpr const char* kAgentPrefix = "agent/";

LogEvent to_event(const ReportedEvent& reported) {
  LogEvent event{reported.unix_time_ms,
                 static_cast<LogLevel>(std::clamp(reported.level, 0, 3)),
                 reported.component,
                 reported.name,
                 {}};
  for (std::size_t i = 0; i < std::min(reported.keys.size(), reported.values.size()); ++i) {
    event.fields.emplace_back(reported.keys[i], reported.values[i]);
  }
  return event;
}

std::set<std::string> names_of(const std::map<std::string, RemoteNode>& nodes) {
  std::set<std::string> names;
  for (const auto& [name, node] : nodes) {
    names.insert(name);
  }
  return names;
}

/// The process of each rank.
std::string process_of(const HostActors& members, const SpawnOptions& options, std::int32_t rank) {
  return options.process == "own" ? members.group + "/" + std::to_string(rank) : options.process;
}

/// "teacher/0 in ScorePack, student/1 in Generate"
std::string last_call(const ProcessReport& report) {
  std::string text;
  for (const ActorStatus& actor : report.actors) {
    if (!actor.current_call.empty()) {
      text += (text.empty() ? "" : ", ") + actor.name + " in " + actor.current_call;
    }
  }
  return text;
}

}  // namespace

std::string node_of_agent(const std::string& process) {
  return process.starts_with(kAgentPrefix) ? process.substr(std::string(kAgentPrefix).size()) : std::string();
}

HeadState::HeadState(const ProcessClusterOptions& options, ProcessStart worker_start, ProcessEntry self)
    : heartbeat_ms_(options.links.heartbeat_ms),
      log_folder_(options.log_folder),
      remote_nodes_(names_of(options.remote)),
      own_node_(self.node),
      worker_start_(std::move(worker_start)),
      supervisor_(options.nodes, options.start_timeout) {
  supervisor_.add_self(std::move(self));
}

void HeadState::connect(Transport& transport, ProcessCluster& cluster) {
  transport_ = &transport;
  cluster_ = &cluster;
  broadcast();
}

template <Message M>
void HeadState::send(const std::optional<InstanceId>& to, const M& message) {
  if (!to) {
    return;
  }
  auto frame = encode_frame(message);
  if (auto sent = frame ? transport_->send(*to, *frame) : Expected<void>(unexpected(frame.error())); !sent) {
    log_warning("cluster", "not_sent", {{"message", message_type<M>().name.name}, {"error", sent.error().message}});
  }
}

std::vector<ProcessPlan> HeadState::plans_for(const HostActors& members, const SpawnOptions& options) const {
  std::vector<ProcessPlan> plans;
  std::set<std::string> names;
  for (const std::int32_t rank : members.ranks) {
    const std::string name = process_of(members, options, rank);
    if (workers_.contains(name) || !names.insert(name).second) {
      continue;
    }
    ProcessPlan plan;
    plan.demand = {name,
                   members.group,
                   options.cpus,
                   options.memory_gib * 1024 * 1024 * 1024,
                   split_labels(options.labels),
                   options.spread ? PlacementRule::spread : PlacementRule::pack};
    plan.policy = {options.max_restarts, std::chrono::seconds(options.restart_window_s),
                   std::chrono::milliseconds(options.restart_backoff_ms)};
    plans.push_back(std::move(plan));
  }
  return plans;
}

Expected<void> HeadState::spawn(const HostActors& members, const SpawnOptions& options) {
  if (!supervisor_.directory().group(members.group).empty()) {
    return unexpected(ErrorCode::already_exists, "a group is named \"" + members.group + "\" already");
  }
  MEMOPD_RETURN_IF_ERROR(supervisor_.add_processes(plans_for(members, options), now()));
  std::vector<ActorEntry> entries;
  for (const std::int32_t rank : members.ranks) {
    entries.push_back({members.group + "/" + std::to_string(rank), members.group, members.actor, rank,
                       members.group_size, members.is_blocking, members.max_mailbox,
                       process_of(members, options, rank)});
  }
  for (const ActorEntry& entry : entries) {
    auto& groups = workers_[entry.process].groups;
    if (groups.empty() || groups.back().group != members.group) {
      groups.push_back(members);
      groups.back().ranks.clear();
    }
    groups.back().ranks.push_back(entry.rank);
  }
  std::set<std::string> told;
  for (const ActorEntry& entry : entries) {
    if (Worker& worker = workers_[entry.process]; told.insert(entry.process).second) {
      send(worker.linked, worker.groups.back());
    }
  }
  MEMOPD_RETURN_IF_ERROR(supervisor_.add_group(std::move(entries), now()));
  act();
  return {};
}

Expected<void> HeadState::announce(std::vector<ActorEntry> members) {
  MEMOPD_RETURN_IF_ERROR(supervisor_.add_group(std::move(members), now()));
  act();
  return {};
}

void HeadState::act() {
  for (const ObjectRelay::Outgoing& outgoing : relay_.take()) {
    std::visit([&](const auto& message) { send(agents_[outgoing.node].linked, message); }, outgoing.message);
  }
  for (const SupervisorAction& action : supervisor_.take_actions()) {
    const auto& agent = agents_[action.node].linked;
    if (action.kind == SupervisorAction::Kind::kill) {
      send(agent, KillProcess{action.process, action.incarnation, action.reason});
      continue;
    }
    const AgentHello& there = agents_[action.node].hello;
    ProcessStart start = worker_start_;
    start.process = action.process;
    start.incarnation = action.incarnation;
    start.node = action.node;
    start.object_socket = there.object_socket;
    start.links.ipc_folder = there.ipc_folder;
    start.links.tcp_host = there.tcp_host;
    send(agent, StartProcess{action.process, action.incarnation, encode(start)});
    log_info("cluster", "process_starting",
             {{"process", action.process}, {"incarnation", action.incarnation}, {"node", action.node}});
  }
  broadcast();
}

void HeadState::broadcast() {
  const Directory& directory = supervisor_.directory();
  for (const DirectoryUpdate& update : directory.since(own_version_)) {
    cluster_->links().apply(update);
  }
  own_version_ = directory.version();
  for (auto& [name, worker] : workers_) {
    if (worker.linked && worker.sent_version < directory.version()) {
      for (const DirectoryUpdate& update : directory.since(worker.sent_version)) {
        send(worker.linked, update);
      }
      worker.sent_version = directory.version();
    }
  }
}

void HeadState::peer_up(const Peer& peer) {
  if (const std::string node = node_of_agent(peer.identity.role); !node.empty()) {
    agents_[node].linked = peer.identity.instance;
    agents_[node].hello = {};
    next_lease_ = {};
    if (remote_nodes_.contains(node)) {
      send(agents_[node].linked, inputs_);
    }
  }
}

void HeadState::peer_down(const Peer& peer, const Error& reason) {
  if (const std::string node = node_of_agent(peer.identity.role); !node.empty()) {
    if (Agent& agent = agents_[node]; agent.linked == peer.identity.instance) {
      agent.linked.reset();
      relay_.node_down(node);
      supervisor_.node_down(node, "agent of node " + node + " lost: " + reason.message, now());
    }
  } else if (const auto found = workers_.find(peer.identity.role);
             found != workers_.end() && found->second.linked == peer.identity.instance) {
    found->second.linked.reset();
    supervisor_.link_lost(peer.identity.role, peer.identity.incarnation, reason.message, now());
  }
  act();
}

void HeadState::node_down(const std::string& node, const std::string& reason) {
  agents_[node].linked.reset();
  relay_.node_down(node);
  supervisor_.node_down(node, reason, now());
  act();
}

Expected<void> HeadState::take(const Peer& peer, const FrameView& frame, std::vector<LogEvent>& events) {
  auto taken =
      node_of_agent(peer.identity.role).empty() ? take_from_worker(peer, frame, events) : take_from_agent(peer, frame);
  act();
  return taken;
}

Expected<void> HeadState::take_from_worker(const Peer& peer, const FrameView& frame, std::vector<LogEvent>& events) {
  const std::string& name = peer.identity.role;
  const std::uint64_t incarnation = peer.identity.incarnation;
  const auto found = workers_.find(name);
  if (found == workers_.end()) {
    return unexpected(ErrorCode::refused, "no process of this run is named " + name);
  }
  Worker& worker = found->second;
  if (frame.name == "ProcessHello") {
    auto hello = decode_parsed<ProcessHello>(frame);
    MEMOPD_RETURN_IF_ERROR(hello);
    if (!supervisor_.said_hello(name, incarnation, peer.identity.instance, std::move(hello->endpoints))) {
      return unexpected(ErrorCode::refused, name + " incarnation " + std::to_string(incarnation) + " is not expected");
    }
    if (hello->object_store != 0) {
      relay_.add_store(hello->object_store, supervisor_.directory().process(name)->node);
    }
    worker.linked = peer.identity.instance;
    worker.sent_version = 0;
    broadcast();  // the directory first: what it hosts may look at it at once
    for (const HostActors& group : worker.groups) {
      send(worker.linked, group);
    }
  } else if (frame.name == "ActorsHosted") {
    auto hosted = decode_parsed<ActorsHosted>(frame);
    MEMOPD_RETURN_IF_ERROR(hosted);
    supervisor_.hosted(name, incarnation, hosted->group, hosted->error);
  } else if (frame.name == "ProcessReport") {
    auto report = decode_parsed<ProcessReport>(frame);
    MEMOPD_RETURN_IF_ERROR(report);
    worker.report = *std::move(report);
  } else if (frame.name == "ActorFailed") {
    auto failed = decode_parsed<ActorFailed>(frame);
    MEMOPD_RETURN_IF_ERROR(failed);
    supervisor_.actor_failed(name, incarnation, failed->actor, failed->reason);
  } else if (frame.name == "EventReport") {
    auto report = decode_parsed<EventReport>(frame);
    MEMOPD_RETURN_IF_ERROR(report);
    for (const ReportedEvent& event : report->events) {
      events.push_back(to_event(event));
    }
  } else {
    return unexpected(ErrorCode::bad_schema, "unknown message " + std::string(frame.name));
  }
  return {};
}

Expected<void> HeadState::take_from_agent(const Peer& peer, const FrameView& frame) {
  const std::string node = node_of_agent(peer.identity.role);
  if (frame.name == "AgentHello") {
    auto hello = decode_parsed<AgentHello>(frame);
    MEMOPD_RETURN_IF_ERROR(hello);
    agents_[node].hello = *std::move(hello);
    relay_.node_up(node);
    if (node == own_node_) {
      relay_.add_store(kLauncherStore, node);
    }
    supervisor_.node_up(node, now());
  } else if (frame.name == "ProcessStarted") {
    auto started = decode_parsed<ProcessStarted>(frame);
    MEMOPD_RETURN_IF_ERROR(started);
    workers_[started->process].started = *started;
  } else if (frame.name == "ProcessSuspect") {
    auto suspect = decode_parsed<ProcessSuspect>(frame);
    MEMOPD_RETURN_IF_ERROR(suspect);
    supervisor_.suspect(suspect->process, suspect->incarnation, suspect->silent_ms);
  } else if (frame.name == "ProcessExited") {
    auto exited = decode_parsed<ProcessExited>(frame);
    MEMOPD_RETURN_IF_ERROR(exited);
    Worker& worker = workers_[exited->process];
    worker.linked.reset();
    supervisor_.exited(exited->process, exited->incarnation,
                       {exited->cause, exited->exit_code, exited->was_asked, exited->last_lines, exited->peak_rss_bytes,
                        last_call(worker.report)},
                       now());
    worker.report = {};
  } else if (frame.name == "AgentReport") {
    auto report = decode_parsed<AgentReport>(frame);
    MEMOPD_RETURN_IF_ERROR(report);
    for (ProcessUsage& usage : report->processes) {
      workers_[usage.process].usage = std::move(usage);
    }
  } else if (frame.name == "ProcessOutput") {
    auto output = decode_parsed<ProcessOutput>(frame);
    MEMOPD_RETURN_IF_ERROR(output);
    if (!workers_.contains(output->process)) {
      return unexpected(ErrorCode::refused, "output of " + output->process + ", which is no process of this run");
    }
    if (!log_folder_.empty()) {
      keep_output(*output);
    }
  } else {
    return take_for_objects(node, frame);
  }
  return {};
}

/// A full disk here is not the sender's fault: said once, and the run goes on.
void HeadState::keep_output(const ProcessOutput& output) {
  const auto kept = append_output(log_folder_, output);
  if (!kept && !has_lost_output_) {
    has_lost_output_ = true;
    log_error("cluster", "output_lost", {{"process", output.process}, {"error", kept.error().message}});
  }
}

Expected<void> HeadState::take_for_objects(const std::string& node, const FrameView& frame) {
  if (frame.name == "ObjectWanted") {
    auto wanted = decode_parsed<ObjectWanted>(frame);
    MEMOPD_RETURN_IF_ERROR(wanted);
    relay_.wanted(node, *wanted);
  } else if (frame.name == "ObjectOffered") {
    auto offered = decode_parsed<ObjectOffered>(frame);
    MEMOPD_RETURN_IF_ERROR(offered);
    relay_.offered(node, *std::move(offered));
  } else if (frame.name == "ReleaseObjects") {
    auto released = decode_parsed<ReleaseObjects>(frame);
    MEMOPD_RETURN_IF_ERROR(released);
    relay_.released(node, *released);
  } else {
    return unexpected(ErrorCode::bad_schema, "unknown message " + std::string(frame.name));
  }
  return {};
}

void HeadState::tick() {
  supervisor_.tick(now());
  if (now() >= next_lease_) {
    next_lease_ = now() + std::chrono::milliseconds(heartbeat_ms_);
    for (const auto& [node, agent] : agents_) {
      send(agent.linked, AgentLease{});
    }
  }
  act();
}

void HeadState::stop_workers(const std::string& reason) {
  supervisor_.stop_all();
  for (const auto& [name, worker] : workers_) {
    send(worker.linked, StopProcess{reason});
  }
  act();
}

void HeadState::kill_workers(const std::string& reason) {
  for (const std::string& name : supervisor_.alive()) {
    const ProcessEntry* const entry = supervisor_.directory().process(name);
    send(agents_[entry->node].linked, KillProcess{name, entry->incarnation, reason});
  }
}

void HeadState::stop_agents() {
  for (const auto& [node, agent] : agents_) {
    send(agent.linked, StopProcess{"the run is over"});
  }
}

std::vector<std::string> HeadState::missing_nodes() const {
  std::vector<std::string> missing;
  for (const NodeCapacity& node : supervisor_.nodes()) {
    const auto found = agents_.find(node.name);
    if (found == agents_.end() || !found->second.linked || found->second.hello.object_socket.empty()) {
      missing.push_back(node.name);
    }
  }
  return missing;
}

void HeadState::add_reports(Topology& topology) const {
  const Directory& directory = supervisor_.directory();
  for (const auto& [name, worker] : workers_) {
    const ProcessEntry* const entry = directory.process(name);
    const bool is_there =
        entry != nullptr && (entry->state == ProcessState::running || entry->state == ProcessState::suspect ||
                             entry->state == ProcessState::stopping);
    std::set<std::string> reported;
    for (ActorStatus actor : worker.report.actors) {
      actor.process = name;
      if (!is_there && entry != nullptr) {
        const bool is_over = entry->state == ProcessState::failed || entry->state == ProcessState::ended;
        actor.state = is_over ? ActorState::failed : ActorState::restarting;
        actor.reason = entry->reason;
        actor.current_call.clear();
      }
      reported.insert(actor.name);
      topology.actors.push_back(std::move(actor));
    }
    for (const ActorEntry& actor : directory.actors_of(name)) {
      if (!reported.contains(actor.name)) {
        ActorStatus status;
        status.name = actor.name;
        status.group = actor.group;
        status.type = actor.type;
        status.rank = actor.rank;
        status.process = name;
        topology.actors.push_back(std::move(status));
      }
    }
    topology.edges.insert(topology.edges.end(), worker.report.edges.begin(), worker.report.edges.end());
  }
}

std::vector<ProcessView> HeadState::processes() const {
  std::vector<ProcessView> views;
  for (const auto& [name, worker] : workers_) {
    const ProcessEntry* const entry = supervisor_.directory().process(name);
    if (entry == nullptr) {
      continue;
    }
    ProcessView view;
    view.entry = *entry;
    const auto agent = agents_.find(entry->node);
    view.host = agent == agents_.end() ? "" : agent->second.hello.host;
    view.pid = worker.started.pid;
    view.pgid = worker.started.pgid;
    view.start_ticks = worker.started.start_ticks;
    view.num_restarts = supervisor_.num_restarts(name);
    view.silent_ms = worker.usage.silent_ms;
    view.rss_bytes = worker.usage.rss_bytes;
    view.cpu_s = worker.usage.cpu_s;
    view.num_refused = worker.report.num_refused;
    for (const ActorEntry& actor : supervisor_.directory().actors_of(name)) {
      view.actors.push_back(actor.name);
    }
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace memopd

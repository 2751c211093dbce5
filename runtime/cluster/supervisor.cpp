#include "runtime/cluster/supervisor.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/log.hpp"

namespace memopd {

Supervisor::Supervisor(std::vector<NodeCapacity> nodes, std::chrono::milliseconds start_timeout)
    : start_timeout_(start_timeout), placement_(std::move(nodes)) {}

void Supervisor::add_self(ProcessEntry entry) {
  self_ = entry.name;
  directory_.set(entry);
}

Expected<void> Supervisor::add_processes(const std::vector<ProcessPlan>& plans, Nanoseconds now) {
  std::vector<ProcessDemand> demands;
  for (const ProcessPlan& plan : plans) {
    if (processes_.contains(plan.demand.name) || plan.demand.name == self_) {
      return unexpected(ErrorCode::already_exists, "a process is named \"" + plan.demand.name + "\" already");
    }
    demands.push_back(plan.demand);
  }
  const auto nodes = placement_.place(demands);
  if (!nodes) {
    return unexpected(nodes.error());
  }
  for (std::size_t i = 0; i < plans.size(); ++i) {
    Process process{{}, RestartTracker(plans[i].policy), {}, {}, now, now, false, false, {}};
    process.entry.name = plans[i].demand.name;
    process.entry.node = (*nodes)[i];
    auto& place = processes_.emplace(process.entry.name, std::move(process)).first->second;
    publish(place);
    if (nodes_up_.contains(place.entry.node)) {
      start(place, now);
    }
  }
  return {};
}

Expected<void> Supervisor::add_group(std::vector<ActorEntry> members, Nanoseconds now) {
  MEMOPD_RETURN_IF_ERROR(directory_.add(members));
  for (const ActorEntry& member : members) {
    const auto process = processes_.find(member.process);
    if (process != processes_.end() && process->second.entry.state == ProcessState::running) {
      process->second.entry.state = ProcessState::starting;
      process->second.since = now;
      publish(process->second);
    }
  }
  return {};
}

Supervisor::Process* Supervisor::find(std::string_view process, std::uint64_t incarnation) {
  const auto found = processes_.find(process);
  const bool is_current =
      found != processes_.end() && found->second.is_started && found->second.entry.incarnation == incarnation;
  return is_current ? &found->second : nullptr;
}

void Supervisor::start(Process& process, Nanoseconds now) {
  ++process.entry.incarnation;
  process.entry.state = ProcessState::starting;
  process.entry.instance = {};
  process.entry.endpoints.clear();
  process.hosted_groups.clear();
  process.own_account.clear();
  process.since = now;
  process.is_started = true;
  process.is_killed = false;
  process.link_lost.reset();
  publish(process);
  actions_.push_back({SupervisorAction::Kind::start, process.entry.name, process.entry.incarnation, process.entry.node,
                      process.entry.reason});
}

void Supervisor::kill(Process& process, const std::string& reason) {
  if (process.is_killed) {
    return;
  }
  process.is_killed = true;
  if (process.own_account.empty()) {
    process.own_account = reason;
  }
  process.entry.reason = reason;
  actions_.push_back(
      {SupervisorAction::Kind::kill, process.entry.name, process.entry.incarnation, process.entry.node, reason});
}

void Supervisor::node_up(std::string_view node, Nanoseconds now) {
  nodes_up_.emplace(node);
  placement_.set_available(node, true);
  for (auto& [name, process] : processes_) {
    if (process.entry.node == node && process.entry.state == ProcessState::waiting && process.due <= now) {
      start(process, now);
    }
  }
}

void Supervisor::node_down(std::string_view node, const std::string& reason, Nanoseconds now) {
  nodes_up_.erase(std::string(node));
  placement_.set_available(node, false);
  for (auto& [name, process] : processes_) {
    if (process.entry.node != node) {
      continue;
    }
    if (process.is_started) {
      gone(process, {reason, 1, is_stopping_, {}, 0, ""}, now);
    }
    if (process.entry.state == ProcessState::waiting) {
      if (const auto other = placement_.move(name)) {
        process.entry.node = *other;
        publish(process);
        log_warning("cluster", "process_moved", {{"process", name}, {"from", std::string(node)}, {"to", *other}});
      }
    }
  }
}

std::string Supervisor::describe_bound_to(std::string_view node) const {
  std::string names;
  for (const auto& [name, process] : processes_) {
    if (process.entry.node == node && process.entry.state == ProcessState::waiting) {
      names += (names.empty() ? "" : ", ") + name;
    }
  }
  return names;
}

bool Supervisor::said_hello(std::string_view process, std::uint64_t incarnation, const InstanceId& instance,
                            std::vector<std::string> endpoints) {
  Process* const found = find(process, incarnation);
  if (found == nullptr || found->is_killed) {
    return false;
  }
  found->entry.instance = instance;
  found->entry.endpoints = std::move(endpoints);
  publish(*found);
  look_whether_running(*found);
  return true;
}

void Supervisor::hosted(std::string_view process, std::uint64_t incarnation, const std::string& group,
                        const std::optional<Error>& error) {
  Process* const found = find(process, incarnation);
  if (found == nullptr) {
    return;
  }
  if (error) {
    kill(*found, "could not host " + group + ": " + error->message);
    return;
  }
  found->hosted_groups.insert(group);
  look_whether_running(*found);
}

void Supervisor::look_whether_running(Process& process) {
  if (process.entry.state != ProcessState::starting || process.entry.endpoints.empty()) {
    return;
  }
  for (const ActorEntry& actor : directory_.actors_of(process.entry.name)) {
    if (!process.hosted_groups.contains(actor.group)) {
      return;
    }
  }
  process.entry.state = ProcessState::running;
  process.entry.reason.clear();
  publish(process);
  log_info("cluster", "process_running",
           {{"process", process.entry.name}, {"incarnation", process.entry.incarnation}, {"node", process.entry.node}});
}

void Supervisor::actor_failed(std::string_view process, std::uint64_t incarnation, const std::string& actor,
                              const std::string& reason) {
  if (Process* const found = find(process, incarnation); found != nullptr && found->own_account.empty()) {
    found->own_account = actor + ": " + reason;
  }
}

void Supervisor::link_lost(std::string_view process, std::uint64_t incarnation, const std::string& reason,
                           Nanoseconds now) {
  Process* const found = find(process, incarnation);
  if (found != nullptr && !is_stopping_ && !found->link_lost) {
    found->link_lost.emplace(now, reason);
  }
}

void Supervisor::suspect(std::string_view process, std::uint64_t incarnation, double silent_ms) {
  Process* const found = find(process, incarnation);
  const bool is_silent = silent_ms > 0;
  if (found == nullptr || found->entry.state != (is_silent ? ProcessState::running : ProcessState::suspect)) {
    return;
  }
  found->entry.state = is_silent ? ProcessState::suspect : ProcessState::running;
  found->entry.reason = is_silent ? "silent for " + std::to_string(static_cast<std::int64_t>(silent_ms)) + " ms" : "";
  publish(*found);
}

void Supervisor::exited(std::string_view process, std::uint64_t incarnation, const ProcessEnd& end, Nanoseconds now) {
  if (Process* const found = find(process, incarnation); found != nullptr) {
    gone(*found, end, now);
  }
}

void Supervisor::gone(Process& process, const ProcessEnd& end, Nanoseconds now) {
  process.is_started = false;
  std::string cause = process.own_account.empty() ? end.cause : process.own_account + " (" + end.cause + ")";
  process.entry.reason = cause;
  if (is_stopping_) {
    process.entry.state = ProcessState::ended;
    publish(process);
    return;
  }
  if (!end.last_lines.empty() && process.own_account.empty()) {
    cause += "; its last line: " + end.last_lines.back();
  }
  if (!end.last_call.empty()) {
    cause += "; last seen with " + end.last_call;
  }
  if (end.peak_rss_bytes > 0) {
    cause += "; peak memory " + std::to_string(end.peak_rss_bytes >> 20) + " MiB";
  }
  log_warning("cluster", "process_ended",
              {{"process", process.entry.name}, {"incarnation", process.entry.incarnation}, {"cause", cause}});
  const auto delay = process.restarts.ended(now);
  if (delay) {
    process.entry.state = ProcessState::waiting;
    process.due = now + *delay;
    publish(process);
    return;
  }
  process.entry.state = ProcessState::failed;
  publish(process);
  if (!failure_) {
    const RestartPolicy& policy = process.restarts.policy();
    const std::string storm = policy.max_restarts == 0
                                  ? ""
                                  : "; restarted " + std::to_string(policy.max_restarts) + " times in " +
                                        std::to_string(policy.window.count() / 1000) + " s before";
    failure_ = FailureReport{process.entry.name, process.entry.name + ": " + cause + storm,
                             end.exit_code == 0 ? 1 : end.exit_code};
  }
}

void Supervisor::tick(Nanoseconds now) {
  for (auto& [name, process] : processes_) {
    if (process.entry.state == ProcessState::waiting && process.due <= now && !is_stopping_ &&
        nodes_up_.contains(process.entry.node)) {
      start(process, now);
    } else if (process.entry.state == ProcessState::starting && now - process.since > start_timeout_ && !is_stopping_) {
      kill(process, "did not report within " + std::to_string(start_timeout_.count() / 1000) + " s of its start");
    } else if (process.is_started && process.link_lost && now - process.link_lost->first >= kLinkPatience) {
      kill(process, "link lost: " + process.link_lost->second);
    }
  }
}

void Supervisor::stop_all() {
  is_stopping_ = true;
  for (auto& [name, process] : processes_) {
    if (process.is_started) {
      process.entry.state = ProcessState::stopping;
    } else if (process.entry.state == ProcessState::waiting) {
      process.entry.state = ProcessState::ended;
    }
    publish(process);
  }
}

std::vector<SupervisorAction> Supervisor::take_actions() { return std::exchange(actions_, {}); }

std::int32_t Supervisor::num_restarts(std::string_view process) const {
  const auto found = processes_.find(process);
  return found == processes_.end() ? 0 : found->second.restarts.num_restarts();
}

std::vector<std::string> Supervisor::alive() const {
  std::vector<std::string> names;
  for (const auto& [name, process] : processes_) {
    if (process.is_started) {
      names.push_back(name);
    }
  }
  return names;
}

std::string Supervisor::describe_missing(Nanoseconds now) const {
  std::string text;
  for (const auto& [name, process] : processes_) {
    if (process.entry.state == ProcessState::starting || process.entry.state == ProcessState::waiting) {
      const auto since_s = std::chrono::duration_cast<std::chrono::seconds>(now - process.since).count();
      const char* const what = process.entry.state == ProcessState::waiting ? "waits to be started"
                               : process.entry.endpoints.empty()            ? "has not said hello"
                                                                            : "has not hosted its actors";
      text += (text.empty() ? "" : "; ") + name + " " + what + " since " + std::to_string(since_s) + " s";
    }
  }
  return text;
}

}  // namespace memopd

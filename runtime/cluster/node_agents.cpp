#include "runtime/cluster/node_agents.hpp"

#include <csignal>
#include <filesystem>
#include <thread>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/cluster/head_state.hpp"
#include "runtime/cluster/reach.hpp"

namespace memopd {
namespace {

constexpr std::chrono::seconds kTryAgain{30};
constexpr int kNotFromAgent = 255;  ///< how ssh says that the connection ended, or the program was killed

}  // namespace

NodeAgents::NodeAgents(const ProcessClusterOptions& options, Handlers handlers)
    : options_(options), handlers_(std::move(handlers)) {}

NodeAgents::~NodeAgents() = default;

Expected<std::unique_ptr<NodeAgents>> NodeAgents::make(const ProcessClusterOptions& options, Handlers handlers) {
  std::unique_ptr<NodeAgents> agents(new NodeAgents(options, std::move(handlers)));
  ProcessTableHandlers on;
  on.on_exit = [agents = agents.get()](const std::string& name, const ExitReport& report) {
    agents->ended(name, report);
  };
  auto table = ProcessTable::start({.heartbeat_interval = std::chrono::milliseconds(options.links.heartbeat_ms),
                                    .dead_after = std::chrono::milliseconds(options.links.dead_after_ms),
                                    .log_folder = options.log_folder},
                                   std::move(on));
  if (!table) {
    return unexpected(table.error());
  }
  agents->table_ = *std::move(table);
  return agents;
}

Expected<void> NodeAgents::start_all(ProcessStart start) {
  start_ = std::move(start);
  for (const NodeCapacity& node : options_.nodes) {
    MEMOPD_RETURN_IF_ERROR(start_agent(node.name));
  }
  return {};
}

Expected<void> NodeAgents::start_agent(const std::string& node) {
  ProcessStart start = start_;
  start.process = "agent/" + node;
  start.node = node;
  start.is_remote = is_remote(node);
  {
    const std::lock_guard lock(mutex_);
    Agent& agent = agents_[node];
    start.incarnation = ++agent.incarnation;
    agent.heard = {};
    agent.due = {};
  }
  ChildSpec child;
  child.name = start.process;
  child.argv = start.is_remote ? options_.remote.at(node).command : options_.agent_command;
  if (start.is_remote) {
    start.worker_command = options_.remote_worker_command;
    start.log_folder.clear();
    start.links.ipc_folder.clear();
  } else {
    child.argv.push_back(start.process);  // for whoever reads the process list; it means nothing
  }
  child.stdin_bytes = encode(start);
  if (!options_.log_folder.empty()) {
    child.log_file = std::filesystem::path(options_.log_folder) / ("agent-" + node + ".out");
  }
  const auto mark = table_->launch(child);
  return mark ? Expected<void>() : Expected<void>(unexpected(mark.error()));
}

void NodeAgents::ended(const std::string& name, const ExitReport& report) {
  const std::string node = node_of_agent(name);
  const std::string last = report.last_lines.empty() ? "" : "; its last line: " + report.last_lines.back();
  const std::string cause = "agent of node " + node + ": " + report.text + last;
  {
    const std::lock_guard lock(mutex_);
    if (is_ending_) {
      return;
    }
  }
  log_error("cluster", "agent_ended", {{"node", node}, {"cause", cause}});
  handlers_.on_down(node, cause);  // before the next start is due: it may have leftovers to wait for
  bool is_given_up = false;
  {
    const std::lock_guard lock(mutex_);
    Agent& agent = agents_[node];
    const auto now = Clock::now();
    auto delay = agent.restarts.ended(now.time_since_epoch());
    is_given_up = !delay;
    if (is_remote(node) && (report.was_asked_to_stop || report.shell_code >= kNotFromAgent)) {
      delay = std::max(delay.value_or(kTryAgain), std::chrono::milliseconds(options_.links.lease_ms));
    }
    agent.due = now + delay.value_or(kTryAgain);
    agent.heard = {};
  }
  if (is_given_up) {
    handlers_.on_given_up(node, cause);
  }
}

void NodeAgents::heard(const std::string& node) {
  const std::lock_guard lock(mutex_);
  if (Agent& agent = agents_[node]; agent.due == Clock::time_point()) {
    agent.heard = Clock::now();
  }
}

void NodeAgents::wait_for(const std::string& node, std::vector<ProcessMark> leftovers) {
  const std::lock_guard lock(mutex_);
  agents_[node].leftovers = std::move(leftovers);
}

std::vector<std::pair<std::string, std::int64_t>> NodeAgents::silent_nodes() {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  const auto gap = now - last_tick_;
  const bool stood_still =
      last_tick_ != Clock::time_point() && gap > std::chrono::milliseconds(options_.links.heartbeat_ms);
  last_tick_ = now;
  std::vector<std::pair<std::string, std::int64_t>> silent;
  for (auto& [node, agent] : agents_) {
    if (!is_remote(node) || agent.heard == Clock::time_point()) {
      continue;
    }
    agent.heard += stood_still ? gap : Clock::duration(0);
    if (const auto silence = now - agent.heard; silence >= std::chrono::milliseconds(options_.links.dead_after_ms)) {
      silent.emplace_back(node, std::chrono::duration_cast<std::chrono::milliseconds>(silence).count());
      agent.heard = {};
    }
  }
  return silent;
}

std::vector<std::string> NodeAgents::due_nodes() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> due;
  for (auto& [node, agent] : agents_) {
    std::erase_if(agent.leftovers, [](const ProcessMark& mark) { return !is_alive(mark); });
    if (!is_ending_ && agent.due != Clock::time_point() && agent.due <= Clock::now() && agent.leftovers.empty()) {
      due.push_back(node);
    }
  }
  return due;
}

void NodeAgents::tick() {
  for (const auto& [node, silent_ms] : silent_nodes()) {
    table_->kill("agent/" + node, "silent for " + std::to_string(silent_ms) + " ms: declared dead");
  }
  for (const std::string& node : due_nodes()) {
    if (auto started = start_agent(node); !started) {
      log_error("cluster", "agent_not_started", {{"node", node}, {"error", started.error().message}});
      const std::lock_guard lock(mutex_);
      agents_[node].due = Clock::now() + kTryAgain;
    }
  }
}

void NodeAgents::end_restarts() {
  const std::lock_guard lock(mutex_);
  is_ending_ = true;
}

void NodeAgents::shutdown(std::chrono::milliseconds grace) {
  const auto end = Clock::now() + grace;
  while (!table_->snapshot().empty() && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  table_->shutdown(std::chrono::milliseconds(200));
}

}  // namespace memopd

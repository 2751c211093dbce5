#include "runtime/cluster/process_link.hpp"

#include <utility>

#include "runtime/cluster/reach.hpp"
#include "runtime/telemetry/run_directory.hpp"

namespace memopd {

TransportOptions transport_options(const RunKey& key, const RunId& run, const std::string& process,
                                   std::uint64_t incarnation, const LinkSettings& links) {
  ProcessIdentity self;
  self.run = run;
  self.instance = make_random_id<InstanceId>();
  self.incarnation = incarnation;
  self.role = process;
  self.build_id = build_id();
  TransportOptions options{key, std::move(self), {}};
  options.listen.ipc_folder = links.ipc_folder;
  options.listen.tcp_host = links.tcp_host;
  options.listen.ports = {static_cast<std::uint16_t>(links.port_lo), static_cast<std::uint16_t>(links.port_hi)};
  options.heartbeat_interval = std::chrono::milliseconds(links.heartbeat_ms);
  // Frozen processes are the agent's business, which can see them; the links only notice a cut.
  options.dead_after = std::chrono::milliseconds(2 * links.dead_after_ms);
  options.bulk.encrypt = links.encrypt_bulk;
  return options;
}

std::filesystem::path object_socket_of(const LinkSettings& links, const std::string& node) {
  return std::filesystem::path(links.ipc_folder) / ("objects-" + node);
}

void TaskQueue::post(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_one();
}

void TaskQueue::run(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [this] { return !tasks_.empty(); });
  while (!tasks_.empty()) {
    const auto task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

Expected<std::unique_ptr<ProcessLink>> ProcessLink::start(const ProcessStart& start, Handlers handlers) {
  auto key = RunKey::parse(start.key);
  if (!key) {
    return unexpected(key.error());
  }
  std::unique_ptr<ProcessLink> link(new ProcessLink());
  link->handlers_ = std::move(handlers);
  link->head_ = start.head_instance;
  TransportHandlers on;
  on.on_peer_up = link->handlers_.on_peer_up;
  on.on_peer_down = link->handlers_.on_peer_down;
  on.on_dial_failed = link->handlers_.on_dial_failed;
  on.on_message = [link = link.get()](const Peer& peer, std::span<const std::byte> body) -> Expected<void> {
    const auto frame = parse_frame(body);
    return frame ? link->handlers_.on_frame(peer, *frame) : Expected<void>(unexpected(frame.error()));
  };
  auto transport = Transport::start(transport_options(*key, start.run, start.process, start.incarnation, start.links),
                                    std::move(on));
  if (!transport) {
    return unexpected(transport.error());
  }
  link->transport_ = *std::move(transport);
  link->transport_->dial({endpoint_for(start.head_endpoints, start.node == start.head_node), start.head_instance,
                          std::chrono::milliseconds(10000)});
  return link;
}

}  // namespace memopd

#include "runtime/cluster/worker.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/cluster/lease.hpp"
#include "runtime/cluster/process_cluster.hpp"
#include "runtime/cluster/process_link.hpp"
#include "runtime/objects/shared_object_store.hpp"

namespace memopd {
namespace {

class Worker {
 public:
  explicit Worker(ProcessStart start) : start_(std::move(start)) {}

  Expected<void> begin() {
    auto objects = open_objects();
    if (!objects) {
      return unexpected(objects.error());
    }
    LocalClusterOptions options;
    options.threads = start_.num_threads;
    options.on_failure = [this](const Down& down) { queue_.post([this, down] { actor_failed(down); }); };
    cluster_ = std::make_unique<ProcessCluster>(make_local_cluster(options), start_.process, start_.incarnation,
                                                *std::move(objects));
    auto link = ProcessLink::start(start_, handlers());
    if (!link) {
      return unexpected(link.error());
    }
    link_ = *std::move(link);
    cluster_->links().connect(link_->transport());
    return {};
  }

  [[noreturn]] void serve() {
    constexpr std::chrono::milliseconds kTurn{20};
    const std::chrono::milliseconds interval(start_.report_interval_ms);
    auto next_report = std::chrono::steady_clock::now();
    while (true) {
      queue_.run(kTurn);
      cluster_->links().tick();
      if (const auto now = std::chrono::steady_clock::now(); has_reports() && is_linked_ && now >= next_report) {
        next_report = now + interval;
        report();
      }
    }
  }

 private:
  [[nodiscard]] bool has_reports() const { return start_.report_interval_ms > 0; }

  Expected<std::unique_ptr<ObjectStore>> open_objects() {
    fill_random({reinterpret_cast<std::uint8_t*>(&store_id_), sizeof store_id_});
    if (start_.object_socket.empty()) {
      return make_local_object_store(store_id_);
    }
    SharedStoreOptions options;
    options.socket = start_.object_socket;
    options.store_id = store_id_;
    return connect_object_store(options);
  }

  ProcessLink::Handlers handlers() {
    ProcessLink::Handlers on;
    on.on_peer_up = [this](const Peer& peer) {
      cluster_->links().peer_up(peer);
      if (peer.identity.role == kLauncher) {
        queue_.post([this] { say_hello(); });
      }
    };
    on.on_peer_down = [this](const Peer& peer, const Error& reason) {
      if (peer.identity.role == kLauncher) {
        queue_.post([reason] { leave_process(kExitHeadLost, "link to the launcher lost: " + reason.message); });
      }
      cluster_->links().peer_down(peer, reason);
    };
    on.on_dial_failed = [this](const DialRequest& request, const Error& error) {
      if (request.expected == start_.head_instance) {
        queue_.post([error] { leave_process(kExitHeadLost, "no launcher to link to: " + error.message); });
      }
      cluster_->links().dial_failed(request, error);
    };
    on.on_frame = [this](const Peer& peer, const FrameView& frame) { return take(peer, frame); };
    return on;
  }

  void say_hello() {
    (void)link_->tell_head(ProcessHello{link_->transport().endpoints(), store_id_});
    is_linked_ = true;
    if (has_reports()) {
      set_log_sink([this](const LogEvent& event) { forward(event); });
    }
  }

  Expected<void> take(const Peer& peer, const FrameView& frame) {
    Expected<void> result;
    if (cluster_->links().take(peer, frame, result)) {
      return result;
    }
    if (peer.identity.role != kLauncher) {
      return unexpected(ErrorCode::refused, std::string(frame.name) + " from " + peer.identity.role);
    }
    if (frame.name == "DirectoryUpdate") {
      auto update = decode_parsed<DirectoryUpdate>(frame);
      MEMOPD_RETURN_IF_ERROR(update);
      cluster_->links().apply(*update);
    } else if (frame.name == "HostActors") {
      auto request = decode_parsed<HostActors>(frame);
      MEMOPD_RETURN_IF_ERROR(request);
      queue_.post([this, request = *std::move(request)] { host(request); });
    } else if (frame.name == "StopProcess") {
      auto stop = decode_parsed<StopProcess>(frame);
      MEMOPD_RETURN_IF_ERROR(stop);
      queue_.post([this, reason = stop->reason] { this->stop(reason); });
    } else {
      return unexpected(ErrorCode::bad_schema, "unknown message " + std::string(frame.name));
    }
    return {};
  }

  void host(const HostActors& request) {
    ActorsHosted answer{request.group, request.ranks, std::nullopt};
    if (auto hosted = cluster_->host(request, start_.incarnation); !hosted) {
      answer.error = hosted.error();
    }
    (void)link_->tell_head(answer);
  }

  void report() {
    Topology topology = cluster_->own_topology();
    std::int64_t num_refused = 0;
    for (const std::int64_t count : link_->transport().counters().refused) {
      num_refused += count;
    }
    (void)link_->tell_head(ProcessReport{std::move(topology.actors), std::move(topology.edges), num_refused});
  }

  void forward(const LogEvent& event) {
    std::fprintf(stderr, "%s\n", to_string(event).c_str());
    if (event.level == LogLevel::debug) {
      return;
    }
    ReportedEvent reported{
        event.unix_time_ms, static_cast<std::int32_t>(event.level), event.component, event.name, {}, {}};
    for (const LogField& field : event.fields) {
      reported.keys.push_back(field.key);
      reported.values.push_back(field.value);
    }
    (void)link_->tell_head(EventReport{{std::move(reported)}});
  }

  /// State is lost with the actor, and nobody else in this process may go on with what it knows: all begin anew.
  [[noreturn]] void actor_failed(const Down& down) {
    (void)link_->tell_head(ActorFailed{down.name, down.reason});
    usleep(200'000);  // the frame leaves by another thread, and nothing tells when
    leave_process(kExitActorFailed, down.name + " failed: " + down.reason);
  }

  [[noreturn]] void stop(const std::string& reason) {
    const ShutdownReport report = cluster_->shutdown(Cluster::kShutdownPatience);
    std::string survivors;
    for (const std::string& name : report.survivors) {
      survivors += (survivors.empty() ? "still running: " : ", ") + name;
    }
    if (has_reports()) {
      this->report();
    }
    usleep(50'000);
    leave_process(0, survivors.empty() ? "stopped: " + reason : survivors);
  }

  const ProcessStart start_;
  std::uint64_t store_id_ = 0;
  TaskQueue queue_;
  std::unique_ptr<ProcessCluster> cluster_;
  std::unique_ptr<ProcessLink> link_;
  std::atomic<bool> is_linked_{false};
};

}  // namespace

void leave_process(int code, const std::string& why) {
  if (!why.empty()) {
    std::fprintf(stderr, "%s\n", why.c_str());
  }
  std::fflush(stdout);
  std::fflush(stderr);
  _exit(code);
}

Expected<ProcessStart> read_process_start() {
  const auto bytes = read_start_bytes(STDIN_FILENO);
  if (!bytes) {
    return unexpected(bytes.error());
  }
  return decode<ProcessStart>(*bytes);
}

void run_worker() {
  (void)std::signal(SIGINT, SIG_IGN);  // the launcher hears it and says what is to happen
  auto start = read_process_start();
  if (!start) {
    leave_process(kExitBadStart, "worker: " + start.error().message);
  }
  const LinkSettings links = start->links;
  const auto lease = Lease::start({.heartbeat_interval = std::chrono::milliseconds(links.heartbeat_ms),
                                   .lease = std::chrono::milliseconds(links.lease_ms),
                                   .on_lost = [](const std::string& why) { leave_process(kExitForgotten, why); }});
  Worker worker(*std::move(start));
  if (auto begun = worker.begin(); !begun) {
    leave_process(kExitBadStart, "worker: " + begun.error().message);
  }
  worker.serve();
}

}  // namespace memopd

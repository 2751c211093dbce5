#include "runtime/cluster/agent.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/cluster/detail/scratch_folder.hpp"
#include "runtime/cluster/host_resources.hpp"
#include "runtime/cluster/lease.hpp"
#include "runtime/cluster/process_link.hpp"
#include "runtime/cluster/process_output.hpp"
#include "runtime/cluster/process_table.hpp"
#include "runtime/cluster/reach.hpp"
#include "runtime/cluster/staging.hpp"
#include "runtime/cluster/worker.hpp"
#include "runtime/objects/object_server.hpp"

namespace memopd {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kGrace{1000};
constexpr std::chrono::milliseconds kLastOutput{2000};  ///< for the rest of what processes printed

class Agent {
 public:
  explicit Agent(ProcessStart start) : start_(std::move(start)), last_lease_(Clock::now()) {}

  Expected<void> begin() {
    if (start_.is_remote) {
      MEMOPD_RETURN_IF_ERROR(settle());
    }
    ProcessTableHandlers on;
    on.on_suspect = [this](const std::string& name, std::int64_t silent_ms) {
      suspect(name, static_cast<double>(silent_ms));
    };
    on.on_recovered = [this](const std::string& name) { suspect(name, 0); };
    on.on_exit = [this](const std::string& name, const ExitReport& report) { exited(name, report); };
    auto table = ProcessTable::start({.heartbeat_interval = std::chrono::milliseconds(start_.links.heartbeat_ms),
                                      .dead_after = std::chrono::milliseconds(start_.links.dead_after_ms),
                                      .log_folder = {}},
                                     std::move(on));
    if (!table) {
      return unexpected(table.error());
    }
    table_ = *std::move(table);
    auto link = ProcessLink::start(start_, handlers());
    if (!link) {
      return unexpected(link.error());
    }
    link_ = *std::move(link);
    return start_objects();
  }

  [[noreturn]] void serve() {
    const std::chrono::milliseconds heartbeat(start_.links.heartbeat_ms);
    auto next_report = Clock::now();
    auto last_turn = Clock::now();
    while (true) {
      queue_.run(std::chrono::milliseconds(50));
      const auto now = Clock::now();
      if (now - last_turn > heartbeat) {
        last_lease_ = now;  // this process itself stood still: give the head a turn before judging it
      }
      last_turn = now;
      if (is_linked_ && now - last_lease_ > std::chrono::milliseconds(start_.links.lease_ms)) {
        end(kExitHeadLost, "the head did not renew the lease");
      }
      if (is_linked_ && now >= next_report) {
        next_report = now + heartbeat;
        report();
      }
      if (is_linked_ && output_) {
        output_->turn();
      }
    }
  }

  [[noreturn]] void end(int code, const std::string& why) {
    table_->shutdown(code == 0 ? kGrace : std::chrono::milliseconds(0));
    if (code == 0 && output_) {
      const auto until = Clock::now() + kLastOutput;
      while (output_->turn() && Clock::now() < until) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the last frames leave by another thread
    }
    if (scratch_.empty()) {
      std::error_code ignored;
      std::filesystem::remove_all(start_.links.ipc_folder, ignored);
    }
    remove_scratch();
    leave_process(code, why);
  }

  void remove_scratch() {
    if (!scratch_.empty()) {
      std::error_code ignored;
      std::filesystem::remove_all(scratch_, ignored);
    }
  }

  void post_end(int code, const std::string& why) {
    queue_.post([this, code, why] { end(code, why); });
  }

 private:
  /// On another host than the head: folders of its own, an address that the head and other nodes can dial.
  Expected<void> settle() {
    auto scratch = detail::make_scratch_folder();
    if (!scratch) {
      return unexpected(scratch.error());
    }
    scratch_ = *std::move(scratch);
    auto address = own_address_towards(host_of_endpoint(endpoint_for(start_.head_endpoints, false)));
    if (!address) {
      return unexpected(address.error());
    }
    start_.links.tcp_host = *std::move(address);
    start_.links.ipc_folder = (scratch_ / "ipc").string();
    start_.log_folder = (scratch_ / "logs").string();
    work_folder_ = scratch_ / "work";
    std::error_code failed;
    std::filesystem::create_directories(start_.log_folder, failed);
    std::filesystem::create_directories(work_folder_, failed);
    if (failed) {
      return unexpected(ErrorCode::io_error, scratch_.string() + ": " + failed.message());
    }
    MEMOPD_RETURN_IF_ERROR(make_private_folder(start_.links.ipc_folder));
    output_.emplace(start_.log_folder,
                    [this](const ProcessOutput& output) { return link_->tell_head(output).has_value(); });
    return {};
  }

  Expected<void> start_objects() {
    ObjectServerOptions objects;
    objects.socket = object_socket_of(start_.links, start_.node);
    objects.bulk = &link_->transport().bulk();
    objects.on_missing = [this](const ObjectRef& ref) { (void)link_->tell_head(ObjectWanted{ref}); };
    objects.on_released = [this](const std::optional<ObjectRef>& ref, const std::optional<Scope>& scope) {
      (void)link_->tell_head(ReleaseObjects{ref, scope});
    };
    auto server = ObjectServer::start(objects);
    if (!server) {
      return unexpected(server.error());
    }
    objects_ = *std::move(server);
    object_socket_ = objects.socket.string();
    offers_ = std::thread([this] {
      while (true) {
        offer_queue_.run(std::chrono::hours(1));
      }
    });
    offers_.detach();  // ends with the process, as this object does
    return {};
  }

  ProcessLink::Handlers handlers() {
    ProcessLink::Handlers on;
    on.on_peer_up = [this](const Peer& peer) {
      if (peer.identity.role == kLauncher) {
        queue_.post([this] {
          last_lease_ = Clock::now();
          is_linked_ = true;
          if (!start_.is_remote) {
            say_hello();
          }
        });
      }
    };
    on.on_peer_down = [this](const Peer& peer, const Error& reason) {
      if (peer.identity.role == kLauncher) {
        post_end(kExitHeadLost, "link to the launcher lost: " + reason.message);
      }
    };
    on.on_dial_failed = [this](const DialRequest&, const Error& error) {
      post_end(kExitHeadLost, "no launcher to link to: " + error.message);
    };
    on.on_frame = [this](const Peer& peer, const FrameView& frame) { return take(peer, frame); };
    return on;
  }

  void say_hello() {
    const HostResources host = read_host_resources();
    (void)link_->tell_head(AgentHello{host.usable_cpus, static_cast<double>(host.memory_limit_bytes), host.host_name,
                                      object_socket_, start_.links.ipc_folder, start_.links.tcp_host});
  }

  Expected<void> take(const Peer& peer, const FrameView& frame) {
    if (peer.identity.role != kLauncher) {
      return unexpected(ErrorCode::refused, std::string(frame.name) + " from " + peer.identity.role);
    }
    if (frame.name == "AgentLease") {
      queue_.post([this] { last_lease_ = Clock::now(); });
    } else if (frame.name == "OfferObject") {
      auto request = decode_parsed<OfferObject>(frame);
      MEMOPD_RETURN_IF_ERROR(request);
      offer_queue_.post([this, request = *std::move(request)] { offer(request); });
    } else if (frame.name == "ObjectOffered") {
      auto offered = decode_parsed<ObjectOffered>(frame);
      MEMOPD_RETURN_IF_ERROR(offered);
      offer_queue_.post([this, offered = *std::move(offered)] { pull(offered); });
    } else if (frame.name == "ReleaseObjects") {
      auto released = decode_parsed<ReleaseObjects>(frame);
      MEMOPD_RETURN_IF_ERROR(released);
      offer_queue_.post([this, released = *std::move(released)] { release(released); });
    } else if (frame.name == "StageFiles") {
      auto request = decode_parsed<StageFiles>(frame);
      MEMOPD_RETURN_IF_ERROR(request);
      offer_queue_.post([this, request = *std::move(request)] { stage(request); });
    } else if (frame.name == "StartProcess") {
      auto request = decode_parsed<StartProcess>(frame);
      MEMOPD_RETURN_IF_ERROR(request);
      queue_.post([this, request = *std::move(request)] { launch(request); });
    } else if (frame.name == "KillProcess") {
      auto request = decode_parsed<KillProcess>(frame);
      MEMOPD_RETURN_IF_ERROR(request);
      queue_.post([this, request = *std::move(request)] {
        if (incarnation_of(request.process) == request.incarnation) {
          table_->kill(request.process, request.reason);
        }
      });
    } else if (frame.name == "StopProcess") {
      auto request = decode_parsed<StopProcess>(frame);
      MEMOPD_RETURN_IF_ERROR(request);
      post_end(0, "");
    } else {
      return unexpected(ErrorCode::bad_schema, "unknown message " + std::string(frame.name));
    }
    return {};
  }

  /// Gets the input files, which takes its time, then reports for work.
  void stage(const StageFiles& request) {
    auto staged = fetch_files(request, work_folder_, link_->transport().bulk());
    queue_.post(
        [this, staged = std::move(staged)] { staged ? say_hello() : end(kExitBadStart, staged.error().message); });
  }

  /// Hashes the object, which takes its time: not on the main thread.
  void offer(const OfferObject& request) {
    ObjectOffered offered;
    offered.ref = request.ref;
    offered.for_node = request.for_node;
    const auto description = objects_->describe(request.ref);
    const auto ticket = description ? objects_->offer(request.ref) : unexpected(description.error());
    if (ticket) {
      offered.ticket = *ticket;
      offered.scope = description->scope;
      offered.type = description->type;
    } else {
      offered.error = ticket.error();
    }
    (void)link_->tell_head(offered);
  }

  void pull(const ObjectOffered& offered) {
    if (offered.error) {
      objects_->fail(offered.ref, *offered.error);
      return;
    }
    objects_->pull(offered.ref, offered.ticket, offered.scope, offered.type, [](const Expected<void>&) {});
  }

  void release(const ReleaseObjects& released) {
    if (released.ref) {
      objects_->release(*released.ref);
    }
    if (released.scope) {
      objects_->release_scope(*released.scope);
    }
  }

  void launch(const StartProcess& request) {
    {
      const std::lock_guard lock(mutex_);
      incarnations_[request.process] = request.incarnation;
    }
    ChildSpec child;
    child.name = request.process;
    child.argv = start_.worker_command;
    child.argv.push_back(request.process);  // for whoever reads the process list; it means nothing
    child.stdin_bytes = request.start;
    child.cwd = work_folder_;
    if (!start_.log_folder.empty()) {
      child.log_file = output_file_of(start_.log_folder, request.process);
    }
    if (output_) {
      output_->add(request.process);
    }
    const auto mark = table_->launch(child);
    if (mark) {
      (void)link_->tell_head(ProcessStarted{request.process, request.incarnation, mark->pid, mark->pgid,
                                            static_cast<std::int64_t>(mark->start_ticks)});
    } else {
      (void)link_->tell_head(
          ProcessExited{request.process, request.incarnation, mark.error().message, 127, false, 0, {}});
    }
  }

  std::uint64_t incarnation_of(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return incarnations_[name];
  }

  void suspect(const std::string& name, double silent_ms) {
    (void)link_->tell_head(ProcessSuspect{name, incarnation_of(name), silent_ms});
  }

  void exited(const std::string& name, const ExitReport& report) {
    (void)link_->tell_head(ProcessExited{name, incarnation_of(name), report.text, report.shell_code,
                                         report.was_asked_to_stop || report.shell_code == 0, report.peak_rss_bytes,
                                         report.last_lines});
  }

  void report() {
    AgentReport report;
    if (start_.report_interval_ms <= 0) {  // the head still hears that this process lives
      (void)link_->tell_head(report);
      return;
    }
    for (const auto& child : table_->snapshot()) {
      report.processes.push_back({child.name, static_cast<double>(child.silent_ms), child.rss_bytes, child.cpu_s});
    }
    (void)link_->tell_head(report);
  }

  ProcessStart start_;                 // constant after begin()
  std::filesystem::path scratch_;      // on another host: all that this node writes; else empty
  std::filesystem::path work_folder_;  // of its processes; empty: ours
  std::optional<OutputSpool> output_;  // main thread
  TaskQueue queue_;
  Clock::time_point last_lease_;
  std::string object_socket_;
  std::unique_ptr<ObjectServer> objects_;
  std::unique_ptr<ProcessLink> link_;
  TaskQueue offer_queue_;  // what reads or makes objects and files, in order
  std::thread offers_;
  std::unique_ptr<ProcessTable> table_;  // its handlers use the link
  std::atomic<bool> is_linked_{false};
  std::mutex mutex_;  // guards what follows
  std::map<std::string, std::uint64_t> incarnations_;
};

}  // namespace

void run_agent() {
  (void)std::signal(SIGINT, SIG_IGN);
  auto start = read_process_start();
  if (!start) {
    leave_process(kExitBadStart, "agent: " + start.error().message);
  }
  const LinkSettings links = start->links;
  static std::atomic<Agent*> serving{nullptr};  // set once it has what must be cleaned up
  const auto lease = Lease::start({.heartbeat_fd = start->is_remote ? -1 : 3,
                                   .heartbeat_interval = std::chrono::milliseconds(links.heartbeat_ms),
                                   .lease = std::chrono::milliseconds(links.lease_ms),
                                   .on_lost = [](const std::string& why) {
                                     if (Agent* const self = serving.load(); self != nullptr) {
                                       self->post_end(kExitForgotten, why);
                                       std::this_thread::sleep_for(std::chrono::seconds(3));
                                     }
                                     leave_process(kExitForgotten, why);
                                   }});
  Agent agent(*std::move(start));
  if (auto begun = agent.begin(); !begun) {
    agent.remove_scratch();
    leave_process(kExitBadStart, "agent: " + begun.error().message);
  }
  serving = &agent;
  agent.serve();
}

}  // namespace memopd

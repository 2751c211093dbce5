#include "tools/memopd_cluster/stop.hpp"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

#include "runtime/telemetry/metrics.hpp"
#include "tools/memopd_cluster/run_view.hpp"
#include "tools/session/console.hpp"

namespace memopd {
namespace {

using namespace std::chrono_literals;

std::int64_t now_ms() { return static_cast<std::int64_t>(1000 * unix_time_s()); }

int num_alive_here(const ProcessesFile& file) {
  const auto is_alive = [](const ProcessRecord& process) { return is_alive_here(process.identity); };
  return static_cast<int>(std::count_if(file.processes.begin(), file.processes.end(), is_alive));
}

void say(const std::string& text) {
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

/// Until the launcher is gone; says when a step or an event is new.
void wait_for_launcher(const StopArguments& arguments, const HostProcess& launcher) {
  std::string shown;
  while (is_alive_here(launcher)) {
    const auto view = load_run_view(arguments.run, now_ms());
    const std::string state = view ? fmt::format("step {}, {}", view->step, visible(view->last_event)) : shown;
    if (state != shown) {
      say(state);
      shown = state;
    }
    std::this_thread::sleep_for(200ms);
  }
}

int stop_now(const ProcessesFile& file) {
  const int num_killed = kill_recorded(file);
  for (int round = 0; round < 50 && (is_alive_here(file.launcher) || num_alive_here(file) > 0); ++round) {
    std::this_thread::sleep_for(200ms);
  }
  const auto is_elsewhere = [](const ProcessRecord& process) {
    return process.identity.pid > 0 && process.identity.host != own_host_name();
  };
  const auto num_elsewhere = std::count_if(file.processes.begin(), file.processes.end(), is_elsewhere);
  const int num_left = num_alive_here(file) + (is_alive_here(file.launcher) ? 1 : 0);
  say(fmt::format("killed {} processes, {} left here", num_killed, num_left));
  if (num_elsewhere > 0) {
    say(fmt::format("{} processes of other hosts end by themselves within seconds, without their launcher",
                    num_elsewhere));
  }
  return num_left == 0 ? kExitOk : kExitRunFailed;
}

int report_gone(const ProcessesFile& file) {
  const int num_left = num_alive_here(file);
  say(fmt::format("the launcher, pid {}, is gone{}", file.launcher.pid,
                  num_left == 0 ? ": nothing to stop"
                                : fmt::format("; {} of its processes live: stop --now kills them", num_left)));
  return num_left == 0 ? kExitOk : kExitRunFailed;
}

}  // namespace

Expected<void> signal_process(const HostProcess& identity, int signal) {
  if (identity.host != own_host_name()) {
    return unexpected(ErrorCode::refused,
                      fmt::format("pid {} is of host {}, this is {}", identity.pid, identity.host, own_host_name()));
  }
  // The descriptor names one process for good: checked once it is held, the pid cannot change hands any more.
  const long opened = identity.pid > 0 ? ::syscall(SYS_pidfd_open, identity.pid, 0) : -1;
  const int descriptor = static_cast<int>(opened);
  const bool is_there = descriptor >= 0 && is_alive_here(identity);
  const bool is_sent = is_there && ::syscall(SYS_pidfd_send_signal, descriptor, signal, nullptr, 0) == 0;
  const int reason = errno;
  if (descriptor >= 0) {
    ::close(descriptor);
  }
  if (!is_there || (!is_sent && reason == ESRCH)) {
    return unexpected(ErrorCode::target_down, fmt::format("pid {} of that start time is gone", identity.pid));
  }
  return is_sent ? Expected<void>()
                 : unexpected(ErrorCode::io_error, fmt::format("pid {}: {}", identity.pid, std::strerror(reason)));
}

int kill_recorded(const ProcessesFile& file) {
  int num_killed = signal_process(file.launcher, SIGKILL) ? 1 : 0;
  for (const ProcessRecord& process : file.processes) {
    if (!is_alive_here(process.identity)) {
      continue;
    }
    // The group first, while its recorded member proves that it is the one; then the member, whatever its group.
    const auto pid = static_cast<pid_t>(process.identity.pid);
    const auto pgid = static_cast<pid_t>(process.pgid);
    if (pgid > 1 && pgid != ::getpgrp() && ::getpgid(pid) == pgid) {
      ::kill(-pgid, SIGKILL);
      ++num_killed;
    } else if (signal_process(process.identity, SIGKILL)) {
      ++num_killed;
    }
  }
  return num_killed;
}

int stop(const StopArguments& arguments) {
  const auto view = load_run_view(arguments.run, now_ms());
  if (!view) {
    return report_error(view.error().message, kExitUsage);
  }
  const auto file = load_processes(arguments.run);
  if (!file) {
    return report_error("nothing to stop: " + file.error().message, kExitUsage);
  }
  const HostProcess& launcher = file->launcher;
  if (launcher.host != own_host_name()) {
    return report_error(
        fmt::format("the launcher runs on {}, this is {}: stop it there", launcher.host, own_host_name()),
        kExitRunFailed);
  }
  if (arguments.is_now) {
    return stop_now(*file);
  }
  if (!is_alive_here(launcher)) {
    return report_gone(*file);
  }
  // A second signal would end it without a checkpoint.
  if (view->is_stop_requested) {
    say(fmt::format("the launcher, pid {}, is stopping already; --now kills it", launcher.pid));
  } else if (auto sent = signal_process(launcher, SIGINT); !sent && sent.error().code != ErrorCode::target_down) {
    return report_error(sent.error().message, kExitRunFailed);
  } else {
    say(fmt::format("asked the launcher, pid {}, to checkpoint and stop; waiting (Ctrl-C only ends the waiting)",
                    launcher.pid));
  }
  wait_for_launcher(arguments, launcher);
  say("stopped: go on with memopd-cluster launch --resume " + arguments.run);
  return kExitOk;
}

}  // namespace memopd

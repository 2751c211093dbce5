// `memopd-cluster stop RUN`: ends the processes that a run recorded, and no others.
//
// ST-1  recorded  a signal goes only to a process whose host, pid and start time are those of processes.json. Never by
//                 name, never to a pid alone (it may be someone else's by now), never to the group of who calls.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "runtime/base/expected.hpp"
#include "runtime/telemetry/processes_file.hpp"

namespace memopd {

struct StopArguments {
  std::string run;      ///< its folder
  bool is_now = false;  ///< SIGKILL at once: no checkpoint
};

/// Sends `signal` to exactly this process of this host.
/// @error target_down  it is gone, or its pid is another's
/// @error refused      it is of another host
/// @error io_error     not allowed
[[nodiscard]] Expected<void> signal_process(const HostProcess& identity, int signal);

/// SIGKILL to the launcher, then to the recorded processes of this host and their groups. @return how many were hit
[[nodiscard]] int kill_recorded(const ProcessesFile& file);

/// @return 0 the run has ended, 1 it has not or is another host's, 2 no run or nothing recorded there
int stop(const StopArguments& arguments);

}  // namespace memopd

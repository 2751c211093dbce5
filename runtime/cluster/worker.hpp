// A worker: a process that hosts actors of a run. Started by the agent of its node, told by the head what to host.
//
// It ends itself: when its agent forgets it (lease), when the head's link is lost, when an actor of it fails (the whole
// process is then started again), when it is told to stop.
#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/cluster/messages.hpp"

namespace memopd {

/// Exit codes of workers and agents.
inline constexpr int kExitActorFailed = 1;
inline constexpr int kExitBadStart = 2;
inline constexpr int kExitForgotten = 75;  ///< its parent is gone, or does not renew its lease
inline constexpr int kExitHeadLost = 76;

/// What this process was started with, from its standard input. @error io_error, parse_error, bad_schema
[[nodiscard]] Expected<ProcessStart> read_process_start();

/// Prints `why` (if any) to standard error and ends the process at once (R11).
[[noreturn]] void leave_process(int code, const std::string& why);

/// Reads a ProcessStart from standard input and serves it. Leaves the process by _exit (R11).
[[noreturn]] void run_worker();

}  // namespace memopd

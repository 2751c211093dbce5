// Starts a child process whose life hangs on ours, and names a process so that a reused pid is never signalled.
//
// Descriptors of the child  0 its lifeline: start bytes, then lease bytes; end of file when we are gone
//                           1, 2 one pipe to us; 3 heartbeats to us, any byte; nothing else is open
// The child leads a process group of its own, has no signal blocked or ignored, inherits the environment, and is killed by
// the kernel (PDEATHSIG) when the *thread* that started it ends: start from a thread that outlives it (R10).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/cluster/detail/file_descriptor.hpp"

namespace memopd {

/// A process group leader for good: pids are used again, the pair (pid, start_ticks) is not.
struct ProcessMark {
  pid_t pid = 0;
  pid_t pgid = 0;
  std::uint64_t start_ticks = 0;  ///< field 22 of /proc/PID/stat: clock ticks since the machine started

  bool operator==(const ProcessMark&) const = default;
};

/// Whether that very process runs; one that has ended and waits for its parent to notice does not.
[[nodiscard]] bool is_alive(const ProcessMark& mark);

/// Sends `signal` to the process group of `mark`, after a look whether its leader is still that process.
/// @error not_found  it has ended, or its pid is another process's now; nobody is signalled
/// @error io_error   the kernel refused
Expected<void> signal_group(const ProcessMark& mark, int signal);

/// A child and our ends of its pipes; all close-on-exec and non-blocking.
struct StartedChild {
  ProcessMark mark;
  detail::FileDescriptor lifeline;    ///< write end of its stdin
  detail::FileDescriptor output;      ///< read end of its stdout and stderr
  detail::FileDescriptor heartbeats;  ///< read end of its descriptor 3
  detail::FileDescriptor ended;       ///< pidfd: readable when it has ended and waits to be reaped
};

/// Forks and executes; returns when the program is loaded.
/// @param argv  the program (searched in PATH if it has no slash) and its arguments; at least one
/// @param cwd   its working directory; empty for ours
/// @error invalid_argument  argv is empty
/// @error not_found         the program or cwd does not exist
/// @error io_error          anything else that the kernel refused, with its words
/// The caller reaps the child. Thread-safe.
[[nodiscard]] Expected<StartedChild> start_child(const std::vector<std::string>& argv,
                                                 const std::filesystem::path& cwd = {});

}  // namespace memopd

// What /proc says of processes, and which of them descend from one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace memopd::detail {

/// A line of /proc/PID/stat.
struct ProcessStat {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t pgid = 0;
  char state = '?';               ///< Z: has ended, nobody has asked for its status
  std::uint64_t cpu_ticks = 0;    ///< user and system time, in clock ticks
  std::uint64_t start_ticks = 0;  ///< since the machine started: with the pid it names a process for good
};

/// Empty if there is no such process.
[[nodiscard]] std::optional<ProcessStat> read_process_stat(pid_t pid);

/// Bytes in memory of a process; 0 if there is none.
[[nodiscard]] std::int64_t resident_bytes(pid_t pid);

/// Every process of which this one may see /proc, in one pass (processes that start meanwhile may be missing).
[[nodiscard]] std::vector<ProcessStat> read_all_processes();

/// Those of `all` whose chain of parents leads to `ancestor`, without itself.
[[nodiscard]] std::vector<ProcessStat> descendants_of(pid_t ancestor, const std::vector<ProcessStat>& all);

}  // namespace memopd::detail

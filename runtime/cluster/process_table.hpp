// The children of this process: starts them, keeps them alive by leases, notices silence and death, keeps what they print,
// and leaves none behind. An agent has one for its workers, the launcher one for its agents.
//
// PT-1  lifeline   every child gets a lease byte through its stdin each heartbeat_interval, after its start bytes, and only
//                  while the table's own thread runs (its other half: lease.hpp).
// PT-2  suspicion  a child that has given a heartbeat and is silent for dead_after / 2 is suspect, after dead_after it is
//                  killed; one that has given none yet is starting and never judged. If this process itself stood still,
//                  silence is counted anew.
// PT-3  groups     when a child ends, however it ends, its process group is killed before its pid can be used again.
// PT-4  no orphan  after shutdown no descendant is left, also none that left its group. Spared are only processes that share
//                  this process's own group (helpers started elsewhere) and children of another table.
// PT-5  output     all that a child printed before its end is in its log file and ExitReport when on_exit is called.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/cluster/child_process.hpp"
#include "runtime/cluster/wait_status.hpp"

namespace memopd {

namespace detail {
class ProcessLoop;
}

struct ProcessTableOptions {
  std::chrono::milliseconds heartbeat_interval{500};  ///< >= 1; lease bytes go out as often
  std::chrono::milliseconds dead_after{2000};         ///< >= 2 heartbeat_interval
  std::filesystem::path log_folder = {};              ///< for children without a log_file; may be empty: no file
};

struct ChildSpec {
  std::string name;                         ///< one of a kind among the living children, not empty
  std::vector<std::string> argv;            ///< see start_child
  std::filesystem::path cwd = {};           ///< empty: ours
  std::vector<std::byte> stdin_bytes = {};  ///< sent as u32 little endian length and the bytes; at most 64 MiB
  std::filesystem::path log_file =
      {};  ///< appended to, each line after its UTC time; empty: log_folder/<name>.log, / as -
};

/// How a child ended.
struct ExitReport {
  ExitCause cause = {};
  std::string text = {};                     ///< one line: the cause, and why if it was our doing
  bool was_asked_to_stop = false;            ///< by stop, kill or shutdown, before its end was noticed
  bool was_silent = false;                   ///< declared dead and killed
  std::int64_t peak_rss_bytes = 0;           ///< of the process and the children it waited for
  std::vector<std::string> last_lines = {};  ///< at most 20
  int shell_code = 0;                        ///< exit code, or 128 + signal
};

/// Called on the table's thread, one at a time, no lock held: be short. They may call stop and kill, not launch or shutdown.
struct ProcessTableHandlers {
  std::function<void(const std::string& name, std::int64_t silent_ms)> on_suspect = nullptr;  ///< once a silence
  std::function<void(const std::string& name)> on_recovered = nullptr;  ///< a suspect gave a heartbeat
  std::function<void(const std::string& name, const ExitReport& report)> on_exit = nullptr;  ///< the name is free again
};

struct ProcessSnapshot {
  std::string name;
  ProcessMark mark;
  std::int64_t silent_ms = -1;  ///< since the last heartbeat; -1 before the first
  std::int64_t rss_bytes = 0;
  double cpu_s = 0;
};

/// Thread-safe. Makes this process the reaper of its orphaned descendants (child subreaper): start no child of another
/// process group than our own beside it.
class ProcessTable {
 public:
  /// @error invalid_argument  options outside their ranges
  /// @error io_error          the kernel refused
  [[nodiscard]] static Expected<std::unique_ptr<ProcessTable>> start(ProcessTableOptions options,
                                                                     ProcessTableHandlers handlers);
  ~ProcessTable();  ///< shutdown(0) unless done; never in a handler
  ProcessTable(const ProcessTable&) = delete;
  ProcessTable& operator=(const ProcessTable&) = delete;

  /// Starts a child; returns when its program is loaded. Blocks meanwhile, as does the table.
  /// @error already_exists    a living child has this name
  /// @error refused           called in a handler, or after shutdown
  /// @error invalid_argument  no name, or more than 64 MiB of stdin_bytes; and those of start_child
  Expected<ProcessMark> launch(ChildSpec spec);

  /// SIGTERM to the child's group, SIGKILL when it lives on after `grace`. Returns at once; no child of this name: nothing.
  void stop(const std::string& name, std::chrono::milliseconds grace, const std::string& reason);
  /// SIGKILL to the child's group and its descendants. Returns at once; no child of this name: nothing.
  void kill(const std::string& name, const std::string& reason);

  /// Stops every child, then kills what remains of their descendants; returns when none is left (or, said in the log, when
  /// the kernel cannot end one within 10 s). Launches are refused from here on.
  void shutdown(std::chrono::milliseconds grace);

  [[nodiscard]] std::vector<ProcessSnapshot> snapshot() const;

 private:
  explicit ProcessTable(std::unique_ptr<detail::ProcessLoop> loop);

  std::unique_ptr<detail::ProcessLoop> loop_;
};

}  // namespace memopd

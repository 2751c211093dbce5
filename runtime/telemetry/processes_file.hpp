// processes.json: which processes a run consists of, as the head last knew them. What `status`, `top` and `stop` act on.
//
// A process is {host, pid, start_ticks}: a pid alone may belong to someone else by now.
// Times in ms since 1970 unless said; sizes in bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

/// In the order of a life; suspect = silent for longer than a heartbeat, not yet given up.
enum class RecordedState : std::uint8_t { waiting, starting, running, suspect, stopping, ended, failed };

[[nodiscard]] std::string_view to_string(RecordedState state);

/// One process among all that ever ran on its host. pid 0 = none yet.
struct HostProcess {
  std::string host;              ///< own_host_name() of where it runs
  std::int64_t pid = 0;          ///< in the launcher's pid namespace when on its host
  std::int64_t start_ticks = 0;  ///< process_start_ticks(pid)

  friend bool operator==(const HostProcess&, const HostProcess&) = default;
};

struct ProcessRecord {
  std::string name;  ///< "worker/3", "agent/node1"
  std::string node;
  HostProcess identity;
  std::int64_t pgid = 0;         ///< its process group; 0 = none of its own
  std::int64_t incarnation = 0;  ///< counts up with each restart
  RecordedState state = RecordedState::waiting;
  std::string reason;  ///< of the end; empty while it lives
  std::int64_t restarts = 0;
  std::int64_t rss_bytes = 0;
  double cpu_s = 0;                 ///< user + system, ever
  std::int64_t silent_ms = 0;       ///< since its last heartbeat
  std::vector<std::string> actors;  ///< "env/3", ..
  std::string log;                  ///< relative to the run's folder; empty = none

  friend bool operator==(const ProcessRecord&, const ProcessRecord&) = default;
};

/// JSON: {"run", "updated_unix_ms", "launcher": {"host", "pid", "start_ticks"}, "processes": [{"name", "node", "host",
/// "pid", "pgid", "start_ticks", "incarnation", "state", "reason", "restarts", "rss_bytes", "cpu_s", "silent_ms",
/// "actors", "log"}]}.
struct ProcessesFile {
  std::string run;
  std::int64_t updated_unix_ms = 0;
  HostProcess launcher;
  std::vector<ProcessRecord> processes;

  friend bool operator==(const ProcessesFile&, const ProcessesFile&) = default;
};

[[nodiscard]] std::string to_json(const ProcessesFile& file);

/// Unknown keys are ignored; missing keys have their default.
/// @error parse_error  not JSON, a value of the wrong type, or an unknown state; names the key
[[nodiscard]] Expected<ProcessesFile> parse_processes(std::string_view json);

/// Replaces `run_folder`/processes.json as a whole. Not synced: it describes living processes, not what must survive.
/// @error io_error  the old file is untouched
Expected<void> save_processes(const std::filesystem::path& run_folder, const ProcessesFile& file);

/// @error not_found, io_error, parse_error; all name the file
[[nodiscard]] Expected<ProcessesFile> load_processes(const std::filesystem::path& run_folder);

/// Start time of a process of this host in clock ticks since boot (/proc/PID/stat, field 22). Thread-safe.
/// @return 0 when there is none, or only a zombie's remains
[[nodiscard]] std::int64_t process_start_ticks(std::int64_t pid);

[[nodiscard]] std::string own_host_name();
[[nodiscard]] HostProcess own_identity();
/// Of a run that is this process alone, now.
[[nodiscard]] ProcessesFile launcher_alone(std::string run);

/// Whether exactly this process runs now on this host. One of another host is never alive here.
[[nodiscard]] bool is_alive_here(const HostProcess& identity);

}  // namespace memopd

// What the folder of a run says about it right now: read by status, top and stop, from outside the run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/expected.hpp"
#include "runtime/telemetry/processes_file.hpp"

namespace memopd {

enum class RunLife : std::uint8_t {
  running,    ///< its launcher lives
  elsewhere,  ///< its launcher is of another host: not seen from here
  completed,
  stopped,  ///< as asked; can be resumed
  failed,
  lost  ///< its launcher is gone without having ended the run
};

[[nodiscard]] std::string_view to_string(RunLife life);

struct RunView {
  std::filesystem::path folder;
  std::string run;
  RunLife life = RunLife::lost;
  std::int64_t step = 0;
  std::int64_t num_steps = 0;             ///< 0 = unknown
  std::map<std::string, double> metrics;  ///< newest value of each
  std::string first_failure;
  std::string last_event;                   ///< name of the newest in events.jsonl
  bool is_stop_requested = false;           ///< asked to stop and not ended yet
  std::optional<std::int64_t> data_age_ms;  ///< of the newest of topology.json and processes.json
  std::optional<ProcessesFile> processes;   ///< nothing: a run of an older version, or one that has not begun
  nlohmann::json topology;                  ///< as runtime/actor/topology.hpp writes it; null = none
  std::int64_t topology_unix_ms = 0;        ///< when it was written
};

/// Reads what there is; a file that is missing or half an answer leaves its part empty.
/// @param now_unix_ms  ages are counted from
/// @error not_found  no run there
[[nodiscard]] Expected<RunView> load_run_view(const std::filesystem::path& folder, std::int64_t now_unix_ms);

/// 0: running or ended as planned; 1: failed or lost.
[[nodiscard]] int exit_code_of(RunLife life);

/// "the launcher, pid 123, is gone", "running, pid 123 on host-a", ..
[[nodiscard]] std::string describe_life(const RunView& view);

/// Text of a run, made harmless for a terminal: control characters become '?'.
[[nodiscard]] std::string visible(std::string_view text);

/// "512 B", "3.2 MiB".
[[nodiscard]] std::string format_bytes(std::int64_t bytes);

/// A member of `object` as text or number; empty or 0 when it is absent or of another type.
[[nodiscard]] std::string text_in(const nlohmann::json& object, const char* key);
[[nodiscard]] double number_in(const nlohmann::json& object, const char* key);

}  // namespace memopd

// The folder of a run: where everything about it lies. Nothing that exists is ever overwritten by another run.
//
//   manifest.json config.toml metrics.jsonl events.jsonl summary.json topology.json
//   logs/<role>-<rank>.log  checkpoints/step-N/  trajectories/  tensorboard/  ledger/
//
// Whole files appear by rename: a reader sees the old one or the new one. metrics, events, logs, trajectories and the
// ledger are appended to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/base/log.hpp"
#include "runtime/telemetry/summary.hpp"

namespace memopd {

/// What ran, on what, from what.
struct Manifest {
  std::string run_name;
  std::string version;     ///< of this program
  std::string build_id;    ///< `git describe` when it was configured
  std::string started_at;  ///< UTC, "2026-11-30T12:00:00Z"
  std::vector<std::string> command_line;
  std::string host;
  std::string cpu_model;
  std::uint64_t seed = 0;
  std::map<std::string, std::string> inputs;  ///< path -> XXH3-128 (hex) of the file, or of all files of a folder
};

[[nodiscard]] std::string_view program_version();
[[nodiscard]] std::string_view build_id();

/// A manifest of this process, on this host, now.
/// @param input_paths  files and folders that the run reads; "" is skipped
/// @error not_found, io_error  an input that cannot be read
[[nodiscard]] Expected<Manifest> make_manifest(std::string run_name, std::vector<std::string> command_line,
                                               std::uint64_t seed,
                                               const std::vector<std::filesystem::path>& input_paths);

/// XXH3-128 of a file's bytes, or of the sorted names and bytes of every file below a folder, as 32 hex digits.
/// @error not_found, io_error
[[nodiscard]] Expected<std::string> fingerprint_input(const std::filesystem::path& path);

/// Replaces `path` as a whole: written beside it, synced, renamed.
/// @error io_error  the old file is untouched
[[nodiscard]] Expected<void> write_file_atomic(const std::filesystem::path& path, std::string_view content);

/// Moves an existing `path` to the first free of `path`.1, `path`.2, ..
/// @return the new name; empty when there was nothing to move
/// @error io_error
[[nodiscard]] Expected<std::filesystem::path> rename_old_run(const std::filesystem::path& path);

/// One run's folder. Copyable; a set of paths. Methods are thread-safe as long as no two write the same file.
class RunDirectory {
 public:
  /// Makes `root`/`name` and its folders.
  /// @param name  letters, digits, - _ . ; not "." or ".."
  /// @error already_exists    the folder holds a run; says what to do
  /// @error invalid_argument  a name that is not one folder
  /// @error io_error
  [[nodiscard]] static Expected<RunDirectory> create(const std::filesystem::path& root, const std::string& name);

  /// An existing run, to read.
  /// @error not_found  no manifest.json there
  [[nodiscard]] static Expected<RunDirectory> open(const std::filesystem::path& folder);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path ledger() const { return path_ / "ledger"; }
  [[nodiscard]] std::filesystem::path trajectories() const { return path_ / "trajectories"; }
  [[nodiscard]] std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }

  /// Held by whoever writes into the run; gone when the process ends, however it ends.
  /// @return a lock that lives as long as the pointer
  /// @error refused  another process holds it
  /// @error io_error
  [[nodiscard]] Expected<std::shared_ptr<void>> lock() const;

  Expected<void> write_manifest(const Manifest& manifest) const;
  Expected<void> write_config(std::string_view toml) const;
  Expected<void> write_summary(const Summary& summary) const;
  Expected<void> write_topology(std::string_view json) const;

  /// A sink for set_log_sink(): every event of level info and above goes to events.jsonl, all of them to
  /// logs/<role>-<rank>.log, where component "env/3" is env-3 and "learner" is learner-0; then to `next`, if given.
  /// The files stay open while the sink lives; write errors are not reported, a run does not end for its log.
  /// @error io_error
  [[nodiscard]] Expected<LogSink> open_log_sink(LogSink next = {}) const;

 private:
  explicit RunDirectory(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace memopd

// Numbers that make curves: metrics.jsonl for scripts, TensorBoard event files for eyes.
//
// One record is one line: {"step":12,"time":1767225600.5,"train/loss":0.31,..}. NaN and infinity become null in the
// line (JSON has neither), stay themselves in the event file, and are counted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/expected.hpp"

namespace memopd {

/// Seconds since 1970 by the system clock.
[[nodiscard]] double unix_time_s();

class MetricsWriter {
 public:
  /// Opens `run_folder`/metrics.jsonl for appending and a new event file in `run_folder`/tensorboard.
  /// @param start_time_s  names the event file
  /// @param resumed_at    first step that the run says again: TensorBoard drops what earlier files say of it and later
  /// @error io_error  names the file
  [[nodiscard]] static Expected<std::unique_ptr<MetricsWriter>> create(
      const std::filesystem::path& run_folder, double start_time_s = unix_time_s(),
      std::optional<std::int64_t> resumed_at = std::nullopt);
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;

  /// Appends one record to both files and flushes them. Thread-safe.
  /// @param metrics  by name, "group/name"; an empty map writes nothing
  /// @error invalid_argument  a metric named "step" or "time", or an empty name
  /// @error io_error          the disk refused; the record may be incomplete
  Expected<void> write(std::int64_t step, const std::map<std::string, double>& metrics, double time_s = unix_time_s());

  /// Values so far that were not finite. Thread-safe.
  [[nodiscard]] std::int64_t num_non_finite() const;

 private:
  struct State;
  explicit MetricsWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace memopd

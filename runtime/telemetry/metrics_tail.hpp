// Reads metrics.jsonl while another process, or another part of this one, appends to it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

/// One line of metrics.jsonl. null, which stands for NaN and infinity, is left out.
struct MetricsRecord {
  std::int64_t step = 0;
  double time_s = 0;  ///< since 1970
  std::map<std::string, double> metrics;

  friend bool operator==(const MetricsRecord&, const MetricsRecord&) = default;
};

/// @error parse_error  not an object with a number "step"
[[nodiscard]] Expected<MetricsRecord> parse_metrics_line(std::string_view line);

/// Follows one file. Not thread-safe.
class MetricsTail {
 public:
  explicit MetricsTail(std::filesystem::path file) : file_(std::move(file)) {}

  /// Records appended since the last call, at most 1 MiB of lines; a line without its end waits for the next call. A
  /// file that became shorter or was replaced (a rewound run) is read from its start. None while there is no file.
  /// Lines that are no record, or above 1 MiB, are skipped and counted.
  [[nodiscard]] std::vector<MetricsRecord> poll();

  [[nodiscard]] std::int64_t num_bad_lines() const { return num_bad_lines_; }

 private:
  std::filesystem::path file_;
  std::uint64_t inode_ = 0;
  std::int64_t offset_ = 0;
  bool is_skipping_ = false;  ///< within a line that is too long
  std::int64_t num_bad_lines_ = 0;
};

}  // namespace memopd

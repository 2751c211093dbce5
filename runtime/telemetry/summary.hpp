// summary.json: how a run ended and what it measured. Written at every step and at the end, always complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/base/expected.hpp"

namespace memopd {

/// A mean over tasks and the bounds of its bootstrap interval.
struct Interval {
  double mean = 0;
  double low = 0;
  double high = 0;

  friend bool operator==(const Interval&, const Interval&) = default;
};

/// Percentile bootstrap of the mean: resamples `values` with replacement.
/// @param values     one per task; all three results are NaN when empty
/// @param level      (0, 1)
/// @param resamples  >= 1
/// Same arguments, same result. Source: Efron (1979).
[[nodiscard]] Interval bootstrap_interval(std::span<const double> values, double level = 0.95, std::uint64_t seed = 0,
                                          std::int32_t resamples = 1000);

enum class Verdict : std::uint8_t { completed, stopped, failed };

[[nodiscard]] std::string_view to_string(Verdict verdict);

/// What became of the trajectories of a run (RL-2: none is lost silently).
struct TrajectoryCounts {
  std::int64_t trained = 0;
  std::int64_t dropped = 0;
  std::int64_t superseded = 0;
  std::int64_t pending = 0;

  friend bool operator==(const TrajectoryCounts&, const TrajectoryCounts&) = default;
};

/// Metrics of one moment: "f1" -> {mean, low, high}, "num_tasks" -> 200.
using SummaryGroup = std::map<std::string, std::variant<double, Interval>>;

struct Summary {
  Verdict verdict = Verdict::stopped;
  std::int64_t steps = 0;                       ///< steps closed
  std::map<std::string, SummaryGroup> metrics;  ///< "cold_start", "final", "teacher", ..
  std::string first_failure;                    ///< one line; empty unless failed
  TrajectoryCounts counts;
  std::map<std::string, double> durations;  ///< seconds by phase

  friend bool operator==(const Summary&, const Summary&) = default;
};

/// JSON, indented; non-finite numbers are null.
[[nodiscard]] std::string to_json(const Summary& summary);

/// Reads what to_json() wrote; null becomes NaN.
/// @error parse_error  not JSON, or a key with a value of the wrong type
[[nodiscard]] Expected<Summary> parse_summary(std::string_view json);

/// @error not_found, io_error, parse_error; all name the file
[[nodiscard]] Expected<Summary> load_summary(const std::filesystem::path& path);

}  // namespace memopd

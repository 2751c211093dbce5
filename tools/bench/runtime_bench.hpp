// What the actor layer costs between processes: calls, creation, objects, start-up; beside Ray on the same host, in the same run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

struct RuntimeBenchOptions {
  std::int32_t num_calls = 5000;         ///< of a latency; >= 100
  std::int32_t num_repetitions = 3;      ///< the median of them is reported; >= 0
  std::int32_t num_telemetry_pairs = 6;  ///< clusters with reports of processes and without, by turns; >= 0
  std::string peer_python;               ///< Python with the package ray; absent = ours alone
  std::string peer_script = "tools/bench/ray_peer.py";
};

struct RuntimeBenchRow {
  std::string name;  ///< with its unit: "call_p50_us"
  double ours = 0;
  std::optional<double> ray;
  /// How many times better ours is; none without the peer.
  [[nodiscard]] std::optional<double> ratio() const;
  bool is_higher_better = false;
};

/// This program must have called run_as_child() at its start.
/// @error what the cluster says
[[nodiscard]] Expected<std::vector<RuntimeBenchRow>> bench_runtime(const RuntimeBenchOptions& options);

[[nodiscard]] std::string to_json(const std::vector<RuntimeBenchRow>& rows);
[[nodiscard]] std::string to_table(const std::vector<RuntimeBenchRow>& rows);

}  // namespace memopd

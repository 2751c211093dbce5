// How fast an object gets from its node to others, beside plain sockets between the same processes in the same run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

struct BroadcastBenchOptions {
  std::vector<std::int64_t> sizes_mib = {64, 512};
  std::int32_t max_nodes = 3;      ///< that read; >= 1; without hosts all are this host
  std::vector<std::string> hosts;  ///< ssh starts the readers there, this program at this path; then max_nodes of them
  std::int32_t num_repetitions = 5;  ///< the median of them is reported; >= 1
};

/// Payload that arrived at all readers in one second, 10^6 bytes.
struct BroadcastBenchRow {
  std::string name;        ///< "64_mib"
  std::int32_t nodes = 0;  ///< that read at once
  double ours_mb_s = 0;    ///< from get to its return, hashes at both ends included
  double raw_tcp_mb_s = 0;
  double encrypted_mb_s = 0;  ///< net.encrypt_bulk
  [[nodiscard]] double ratio() const { return ours_mb_s / raw_tcp_mb_s; }
};

/// This program must have called run_as_child() at its start.
/// @error invalid_argument  an option out of range
/// @error what the cluster says
[[nodiscard]] Expected<std::vector<BroadcastBenchRow>> bench_broadcast(const BroadcastBenchOptions& options);

[[nodiscard]] std::string to_json(const std::vector<BroadcastBenchRow>& rows);
[[nodiscard]] std::string to_table(const std::vector<BroadcastBenchRow>& rows);

}  // namespace memopd

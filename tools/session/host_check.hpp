// What each host of a run offers, asked before anything starts there.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"
#include "tools/session/node_plan.hpp"

namespace memopd {

/// Answer of `memopd-cluster host`.
struct HostFacts {
  std::string host;  ///< its own name
  std::string build_id;
  double usable_cpus = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t shm_free_bytes = 0;
  std::int64_t temp_free_bytes = 0;  ///< where scratch folders are made
  std::int64_t max_open_files = 0;
  std::int64_t unix_time_ms = 0;
  std::string cpu_flags;  ///< "avx2 avx512f", those that kernels choose by
  std::vector<std::string> gpus;
};

[[nodiscard]] HostFacts read_host_facts();
/// One line of JSON.
[[nodiscard]] std::string to_json_line(const HostFacts& facts);
/// @error parse_error  not that line
[[nodiscard]] Expected<HostFacts> parse_host_facts(std::string_view line);

struct HostAnswer {
  HostFacts facts;
  std::string problem;         ///< empty: none; else what, found, expected, what to do
  bool lacks_program = false;  ///< the problem is that the program is not there, or is another build
  double round_trip_ms = 0;    ///< of the whole question, ssh included
  double clock_offset_ms = 0;  ///< its clock minus ours, as far as the round trip does not explain it
};

/// Asks every node, this host included. Blocks, at most 20 s.
[[nodiscard]] Expected<std::map<std::string, HostAnswer>> ask_hosts(const std::vector<PlannedNode>& nodes);

/// Fills in cpus and memory that were left to the hosts.
/// @error target_down  every problem of every host, a line each
Expected<void> take_answers(std::vector<PlannedNode>& nodes, const std::map<std::string, HostAnswer>& answers);

}  // namespace memopd

// `memopd ledger stats`: what a ledger holds, what it costs, and whether its accounts balance (RL-2).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "runtime/base/expected.hpp"
#include "runtime/ledger/audit.hpp"
#include "runtime/ledger/read_ledger.hpp"
#include "tools/memopd/ledger_run.hpp"

namespace memopd {

struct LedgerStats {
  LedgerExtent extent;
  std::map<std::string, std::int64_t> records;      ///< by kind
  std::map<std::string, std::int64_t> statuses;     ///< trajectory records by status
  std::map<std::string, std::int64_t> invocations;  ///< by split
  std::int32_t first_step = -1;                     ///< closed; -1 = none
  std::int32_t last_step = -1;
  std::int64_t first_version = -1;  ///< among all response tokens; -1 = none
  std::int64_t last_version = -1;
  std::int64_t prompt_tokens = 0;
  std::int64_t response_tokens = 0;
  LedgerAudit audit;
};

/// The audit holds max_policy_lag of the run's configuration, when it has one.
/// @error those of for_each_record
[[nodiscard]] Expected<LedgerStats> ledger_stats(const LedgerRun& run);

[[nodiscard]] std::string to_text(const LedgerStats& stats);
[[nodiscard]] std::string to_json(const LedgerStats& stats);

}  // namespace memopd

// `memopd ledger verify`: recorded invocations scored again with the weights that sampled them.
//
// Three numbers of every response token must agree: the log-prob of the invocation alone in a pack, the log-prob in a pack
// that shares prefixes (AP-5), and the one the sampler recorded. And the digest of the state recorded by the engine with
// that of the state in the shared pack (AP-6).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "policies/text/tokenizer.hpp"
#include "runtime/base/expected.hpp"
#include "tools/memopd/ledger_run.hpp"

namespace memopd {

struct VerifyOptions {
  std::int64_t limit = 2000;         ///< invocations, shared out evenly among the versions kept; 0 = all
  std::uint64_t seed = 0;            ///< of the choice
  double alone_tolerance = 1e-5;     ///< nats, alone against packed
  double recorded_tolerance = 1e-3;  ///< nats, packed against recorded: another code path, other sums
};

struct VerifyReport {
  std::int64_t num_invocations = 0;  ///< in the ledger
  std::int64_t num_empty = 0;        ///< of them without a response token
  std::int64_t num_mixed = 0;        ///< whose tokens are of several versions
  std::int64_t num_not_kept = 0;     ///< whose weights are not there (any more)
  std::int64_t num_checked = 0;      ///< chosen among the rest
  std::int64_t num_verified = 0;
  std::int64_t num_tokens = 0;                    ///< response tokens of those checked
  std::map<std::string, std::int64_t> by_policy;  ///< checked, by "version 12", "lineage 1 version 12", "teacher"
  std::int64_t num_digests = 0;                   ///< checked, of which the engine recorded a digest
  double max_alone_difference = 0;                ///< nats, alone - packed
  double max_recorded_difference = 0;             ///< nats, packed - recorded
  std::vector<std::string> mismatches;            ///< one line each: invocation, token, numbers
};

/// Reads the ledger twice, one record at a time; keeps the invocations chosen.
/// @error those of for_each_record, kept_policies and the models; not_found when nothing can be checked
[[nodiscard]] Expected<VerifyReport> verify_ledger(const LedgerRun& run, const Tokenizer& tokenizer,
                                                   const VerifyOptions& options);

[[nodiscard]] std::string to_text(const VerifyReport& report);
[[nodiscard]] std::string to_json(const VerifyReport& report);

}  // namespace memopd

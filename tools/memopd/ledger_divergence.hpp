// Divergence of recorded calls from the teacher, computed again from a run's weights, call by call.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "policies/training/log_prob_scorer.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/ledger/ledger_records.hpp"
#include "tools/memopd/ledger_run.hpp"

namespace memopd {

/// [opd]'s divergence in the aligned state, by the newest kept policy that is not newer than the call's own.
class CallDivergence {
 public:
  /// @error not_found  the run names no teacher, or its folder changed; what loading it says
  static Expected<CallDivergence> load(const LedgerRun& run, PolicyLine line, std::int32_t scored_vocab);

  struct Values {
    std::vector<double> per_token;    ///< [A] nats
    std::int64_t policy_version = 0;  ///< of the weights used
    bool is_own_version = false;      ///< they are the ones that sampled the whole call
  };
  /// @error not_found  no kept policy is as old as the call; names it
  [[nodiscard]] Expected<Values> of(const InvocationRecord& record);

 private:
  CallDivergence(PolicyLine line, std::int32_t scored_vocab) : line_(std::move(line)), scored_vocab_(scored_vocab) {}

  PolicyLine line_;
  std::int32_t scored_vocab_;
  DivergenceOptions options_;
  std::shared_ptr<const LogProbScorer> teacher_;
  std::map<std::filesystem::path, std::shared_ptr<const LogProbScorer>> policies_;
};

}  // namespace memopd

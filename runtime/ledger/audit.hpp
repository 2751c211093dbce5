// Accounts for every attempt at a trajectory in a ledger (RL-2): exactly one of trained, dropped, superseded, pending.
//
// RL-1  what a step trained has its record and every invocation in the ledger before the step's own record.
// RL-2  along the lineage of the surviving weights a trajectory is trained in at most one step, with one attempt.
// RL-3  the lag of a trained trajectory is the step's policy_version minus the oldest version among its tokens.
//
// Trained, dropped  as the records of its step say; the highest attempt counts, the others are superseded.
// Superseded        so is everything of steps that were rolled back.
// Pending           its step is not closed. One whose step was closed without it is lost: a violation.
// Evaluations (split not "train") are counted apart. Of a pruned ledger only what is complete is audited.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/trajectory_id.hpp"
#include "runtime/ledger/read_ledger.hpp"

namespace memopd {

struct AuditOptions {
  std::optional<std::int32_t> max_policy_lag{};  ///< a trained trajectory beyond it is a violation; none = not checked
};

struct LedgerAudit {
  std::int64_t num_trained = 0;                 ///< attempts; so are all counts here
  std::map<std::string, std::int64_t> dropped;  ///< by reason
  std::int64_t num_superseded = 0;
  std::int64_t num_pending = 0;
  std::int64_t num_evaluations = 0;  ///< outside the accounting
  std::int64_t num_steps = 0;        ///< closed, along the surviving lineage
  std::int64_t num_rollbacks = 0;
  std::int32_t complete_from_step = 0;  ///< > 0: earlier steps were pruned and are not audited
  std::int64_t max_lag = 0;             ///< of any trained trajectory, in versions
  std::vector<std::string> violations;  ///< in the order of the records that show them

  [[nodiscard]] std::int64_t num_dropped() const;
};

/// What became of the attempt that counts.
enum class Fate : std::uint8_t { pending, trained, dropped, superseded, evaluation, lost };

/// "trained in step 12", "dropped (stale)", ..
struct TrajectoryFate {
  Fate fate = Fate::pending;
  std::int32_t step = -1;  ///< trained
  std::string reason{};    ///< dropped
};
[[nodiscard]] std::string to_string(const TrajectoryFate& fate);

/// Takes the records one by one, in order. Memory: some hundred bytes per trajectory. Not thread-safe.
class LedgerAuditor {
 public:
  explicit LedgerAuditor(AuditOptions options = {});
  ~LedgerAuditor();
  LedgerAuditor(const LedgerAuditor&) = delete;
  LedgerAuditor& operator=(const LedgerAuditor&) = delete;

  void add(const LedgerRecord& record);
  /// May be called at any time.
  [[nodiscard]] LedgerAudit result() const;
  /// Of one attempt, as far as the records say. `lineage` is that of its records.
  [[nodiscard]] TrajectoryFate fate_of(std::int64_t lineage, const TrajectoryId& id, std::int32_t attempt) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

[[nodiscard]] LedgerAudit audit_ledger(const LedgerContents& contents, AuditOptions options = {});

}  // namespace memopd

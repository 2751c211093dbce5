#include "runtime/ledger/audit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace memopd {
namespace {

constexpr std::int64_t kNoVersion = std::numeric_limits<std::int64_t>::max();

struct Attempt {
  std::int64_t lineage = 0;
  std::set<std::int32_t> invocations;
  std::optional<std::int32_t> num_invocations;  ///< as its record says
  TrajectoryStatus status = TrajectoryStatus::completed;
  std::int64_t oldest_version = kNoVersion;
};

/// A trajectory along the surviving lineage.
struct Entry {
  std::map<std::int32_t, Attempt> attempts;
  std::optional<std::int32_t> trained_step;
  std::optional<std::string> drop_reason;
  std::int32_t fate_step = -1;        ///< the step in whose course it was trained or dropped
  std::int32_t counting_attempt = 0;  ///< once it was trained or dropped

  [[nodiscard]] bool has_ended() const { return trained_step || drop_reason; }
};

/// The highest attempt with a record, else the highest.
std::int32_t counting_attempt(const Entry& entry) {
  for (auto attempt = entry.attempts.rbegin(); attempt != entry.attempts.rend(); ++attempt) {
    if (attempt->second.num_invocations) {
      return attempt->first;
    }
  }
  return entry.attempts.empty() ? 0 : entry.attempts.rbegin()->first;
}

std::string name_of(const TrajectoryId& id, std::int32_t attempt) {
  return fmt::format("trajectory {}, attempt {}", to_string(id), attempt);
}

bool is_training(const TrajectoryId& id) { return id.split == "train"; }

}  // namespace

std::int64_t LedgerAudit::num_dropped() const {
  std::int64_t count = 0;
  for (const auto& [reason, number] : dropped) {
    count += number;
  }
  return count;
}

std::string to_string(const TrajectoryFate& fate) {
  switch (fate.fate) {
    case Fate::pending:
      return "pending";
    case Fate::trained:
      return fmt::format("trained in step {}", fate.step);
    case Fate::dropped:
      return fmt::format("dropped ({})", fate.reason);
    case Fate::superseded:
      return "superseded";
    case Fate::evaluation:
      return "evaluation";
    case Fate::lost:
      return "lost: its step was closed without it";
  }
  return "unknown";
}

class LedgerAuditor::Impl {
 public:
  explicit Impl(AuditOptions options) : options_(options) {}

  void operator()(const InvocationRecord& record) {
    const Invocation& call = record.invocation;
    if (!is_training(call.trajectory_id)) {
      evaluations_.insert({call.trajectory_id, call.attempt});
      return;
    }
    Attempt& attempt = attempt_of(record.lineage, call.trajectory_id, call.attempt);
    const std::string name = name_of(call.trajectory_id, call.attempt);
    if (!attempt.invocations.insert(call.invocation_index).second) {
      violation(call.trajectory_id.step, fmt::format("{}: invocation {} recorded twice", name, call.invocation_index));
    }
    std::int64_t num_versions = 0;
    for (const VersionRun& run : call.policy_versions) {
      num_versions += run.count;
      attempt.oldest_version = std::min(attempt.oldest_version, run.policy_version);
    }
    if (num_versions != static_cast<std::int64_t>(call.response_token_ids.size())) {
      violation(call.trajectory_id.step,
                fmt::format("{}: invocation {}: {} versions for {} response tokens", name, call.invocation_index,
                            num_versions, call.response_token_ids.size()));
    }
  }

  void operator()(const TrajectoryRecord& record) {
    const TrajectoryId& id = record.trajectory.id;
    if (!is_training(id)) {
      evaluations_.insert({id, record.trajectory.attempt});
      return;
    }
    Attempt& attempt = attempt_of(record.lineage, id, record.trajectory.attempt);
    if (attempt.num_invocations) {
      violation(id.step, name_of(id, record.trajectory.attempt) + ": recorded twice");
    }
    attempt.num_invocations = record.num_invocations;
    attempt.status = record.trajectory.status;
  }

  void operator()(const StepRecord& record) {
    check_lineage(record.step, record.lineage);
    if (!steps_.empty() && record.step <= *steps_.rbegin()) {
      violation(record.step, fmt::format("step {}: closed after step {}", record.step, *steps_.rbegin()));
    }
    steps_.insert(record.step);
    for (const TrajectoryId& id : record.trajectories) {
      train(record, id);
    }
  }

  void operator()(const DroppedRecord& record) {
    check_lineage(record.trajectory_id.step, record.lineage);
    Entry& entry = entries_[record.trajectory_id];
    const std::string name = "trajectory " + to_string(record.trajectory_id);
    if (entry.trained_step) {
      violation(record.trajectory_id.step, fmt::format("{}: dropped ({}) after it was trained in step {}", name,
                                                       record.reason, *entry.trained_step));
      return;
    }
    if (entry.drop_reason) {
      violation(record.trajectory_id.step,
                fmt::format("{}: dropped ({}) after it was dropped ({})", name, record.reason, *entry.drop_reason));
      return;
    }
    entry.attempts[record.attempt].lineage = record.lineage;
    entry.drop_reason = record.reason;
    entry.counting_attempt = record.attempt;
    entry.fate_step = next_step();
  }

  void operator()(const RolledBackRecord& record) {
    check_lineage(record.to_step, record.from_lineage);
    lineage_ = record.to_lineage;
    ++num_rollbacks_;
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      const bool is_void = entry->first.step >= record.to_step || entry->second.fate_step >= record.to_step;
      for (const auto& [number, attempt] : entry->second.attempts) {
        if (is_void) {
          superseded_.insert({attempt.lineage, entry->first, number});
        }
      }
      entry = is_void ? entries_.erase(entry) : std::next(entry);
    }
    steps_.erase(steps_.lower_bound(record.to_step), steps_.end());
  }

  void operator()(const PrunedRecord& record) {
    complete_from_step_ = std::max(complete_from_step_, record.complete_from_step);
  }

  [[nodiscard]] LedgerAudit result() const;
  [[nodiscard]] TrajectoryFate fate_of(std::int64_t lineage, const TrajectoryId& id, std::int32_t attempt) const;

 private:
  struct Violation {
    std::int32_t step = 0;  ///< that dispatched what it is about
    std::string text;
  };
  struct AttemptName {
    std::int64_t lineage = 0;
    TrajectoryId id;
    std::int32_t attempt = 0;
    friend auto operator<=>(const AttemptName&, const AttemptName&) = default;
  };

  void violation(std::int32_t step, std::string text) { violations_.push_back({step, std::move(text)}); }

  void check_lineage(std::int32_t step, std::int64_t lineage) {
    if (!lineage_) {
      lineage_ = lineage;
    }
    if (lineage != *lineage_) {
      violation(step, fmt::format("step {}: a record of lineage {} in lineage {}", step, lineage, *lineage_));
    }
  }

  [[nodiscard]] std::int32_t next_step() const { return steps_.empty() ? 0 : *steps_.rbegin() + 1; }

  Attempt& attempt_of(std::int64_t lineage, const TrajectoryId& id, std::int32_t number) {
    check_lineage(id.step, lineage);
    Entry& entry = entries_[id];
    if (entry.has_ended()) {
      violation(id.step, fmt::format("{}: a record after it was {}", name_of(id, number), to_string(fate(id, entry))));
    }
    Attempt& attempt = entry.attempts[number];
    attempt.lineage = lineage;
    return attempt;
  }

  void train(const StepRecord& record, const TrajectoryId& id) {
    const std::string place = fmt::format("step {}: trajectory {}", record.step, to_string(id));
    if (!is_training(id)) {
      violation(id.step, place + ": of an evaluation");
      return;
    }
    Entry& entry = entries_[id];
    if (entry.has_ended()) {
      violation(id.step, fmt::format("{}: trained after it was {}", place, to_string(fate(id, entry))));
      return;
    }
    entry.counting_attempt = counting_attempt(entry);
    check_trained(record, id, entry.attempts[entry.counting_attempt],
                  fmt::format("{}, attempt {}", place, entry.counting_attempt));
    entry.trained_step = record.step;
    entry.fate_step = record.step;
  }

  void check_trained(const StepRecord& record, const TrajectoryId& id, const Attempt& attempt,
                     const std::string& place) {
    if (!attempt.num_invocations) {
      violation(id.step, place + ": without record");
      return;
    }
    const auto num_recorded = static_cast<std::int32_t>(attempt.invocations.size());
    const std::int32_t num_indices = num_recorded == 0 ? 0 : *attempt.invocations.rbegin() + 1;
    if (num_recorded != *attempt.num_invocations || num_indices != num_recorded) {
      violation(id.step,
                fmt::format("{}: {} of {} invocations recorded", place, num_recorded, *attempt.num_invocations));
    }
    if (!is_trained(attempt.status)) {
      violation(id.step, fmt::format("{}: of status {}", place, to_string(attempt.status)));
    }
    const std::int64_t lag = attempt.oldest_version == kNoVersion ? 0 : record.policy_version - attempt.oldest_version;
    max_lag_ = std::max(max_lag_, lag);
    if (lag < 0) {
      violation(id.step, fmt::format("{}: sampled by version {}, closed at version {}", place, attempt.oldest_version,
                                     record.policy_version));
    }
    if (options_.max_policy_lag && lag > *options_.max_policy_lag) {
      violation(id.step, fmt::format("{}: lag {}, allowed {}", place, lag, *options_.max_policy_lag));
    }
  }

  [[nodiscard]] TrajectoryFate fate(const TrajectoryId& id, const Entry& entry) const {
    if (entry.trained_step) {
      return {Fate::trained, *entry.trained_step, {}};
    }
    if (entry.drop_reason) {
      return {Fate::dropped, -1, *entry.drop_reason};
    }
    return {steps_.contains(id.step) ? Fate::lost : Fate::pending, -1, {}};
  }

  AuditOptions options_;
  std::optional<std::int64_t> lineage_;
  std::map<TrajectoryId, Entry> entries_;
  std::set<std::pair<TrajectoryId, std::int32_t>> evaluations_;  ///< id and attempt
  std::set<AttemptName> superseded_;                             ///< of steps rolled back
  std::set<std::int32_t> steps_;                                 ///< closed
  std::int64_t num_rollbacks_ = 0;
  std::int32_t complete_from_step_ = 0;
  std::int64_t max_lag_ = 0;
  std::vector<Violation> violations_;
};

LedgerAudit LedgerAuditor::Impl::result() const {
  LedgerAudit audit;
  audit.num_evaluations = static_cast<std::int64_t>(evaluations_.size());
  audit.num_steps = std::distance(steps_.lower_bound(complete_from_step_), steps_.end());
  audit.num_rollbacks = num_rollbacks_;
  audit.complete_from_step = complete_from_step_;
  audit.max_lag = max_lag_;
  for (const Violation& found : violations_) {
    if (found.step >= complete_from_step_) {
      audit.violations.push_back(found.text);
    }
  }
  audit.num_superseded = std::count_if(superseded_.begin(), superseded_.end(),
                                       [this](const AttemptName& name) { return name.id.step >= complete_from_step_; });
  for (const auto& [id, entry] : entries_) {
    if (id.step < complete_from_step_) {
      continue;
    }
    audit.num_superseded += std::max<std::int64_t>(0, static_cast<std::int64_t>(entry.attempts.size()) - 1);
    const TrajectoryFate ended = fate(id, entry);
    switch (ended.fate) {
      case Fate::trained:
        ++audit.num_trained;
        break;
      case Fate::dropped:
        ++audit.dropped[ended.reason];
        break;
      case Fate::lost:
        audit.violations.push_back(fmt::format("trajectory {}: {}", to_string(id), to_string(ended)));
        break;
      default:
        ++audit.num_pending;
    }
  }
  return audit;
}

TrajectoryFate LedgerAuditor::Impl::fate_of(std::int64_t lineage, const TrajectoryId& id, std::int32_t attempt) const {
  if (!is_training(id)) {
    return {Fate::evaluation, -1, {}};
  }
  if (superseded_.contains({lineage, id, attempt})) {
    return {Fate::superseded, -1, {}};
  }
  const auto entry = entries_.find(id);
  if (entry == entries_.end()) {
    return {};
  }
  const std::int32_t counting =
      entry->second.has_ended() ? entry->second.counting_attempt : counting_attempt(entry->second);
  return attempt == counting ? fate(id, entry->second) : TrajectoryFate{Fate::superseded, -1, {}};
}

LedgerAuditor::LedgerAuditor(AuditOptions options) : impl_(std::make_unique<Impl>(options)) {}
LedgerAuditor::~LedgerAuditor() = default;

void LedgerAuditor::add(const LedgerRecord& record) { std::visit(*impl_, record); }
LedgerAudit LedgerAuditor::result() const { return impl_->result(); }
TrajectoryFate LedgerAuditor::fate_of(std::int64_t lineage, const TrajectoryId& id, std::int32_t attempt) const {
  return impl_->fate_of(lineage, id, attempt);
}

LedgerAudit audit_ledger(const LedgerContents& contents, AuditOptions options) {
  LedgerAuditor auditor(options);
  for (const LedgerRecord& record : contents.records) {
    auditor.add(record);
  }
  return auditor.result();
}

}  // namespace memopd

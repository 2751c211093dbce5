#include "tools/memopd/ledger_show.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "runtime/ledger/audit.hpp"
#include "runtime/ledger/read_ledger.hpp"
#include "tools/memopd/ledger_divergence.hpp"

namespace memopd {
namespace {

/// Collects the attempts selected while the auditor follows what becomes of all of them.
class Collection {
 public:
  explicit Collection(const ShowSelection& selection) : selection_(selection) {}

  void add(LedgerRecord record) {
    auditor_.add(record);
    if (auto* called = std::get_if<InvocationRecord>(&record)) {
      const Invocation& call = called->invocation;
      ShownAttempt* attempt = find({called->lineage, call.trajectory_id, call.attempt});
      if (attempt != nullptr && (!selection_.call || *selection_.call == call.invocation_index)) {
        attempt->calls.push_back({std::move(*called), {}, {}});
      }
    } else if (auto* ended = std::get_if<TrajectoryRecord>(&record)) {
      if (ShownAttempt* attempt = find({ended->lineage, ended->trajectory.id, ended->trajectory.attempt})) {
        attempt->ended = std::move(*ended);
      }
    }
  }

  /// In the order of their first record.
  std::vector<std::pair<AttemptKey, ShownAttempt>> take() {
    std::vector<std::pair<AttemptKey, ShownAttempt>> result;
    for (const AttemptKey& key : order_) {
      ShownAttempt& attempt = attempts_.at(key);
      std::sort(attempt.calls.begin(), attempt.calls.end(), [](const ShownCall& a, const ShownCall& b) {
        return a.record.invocation.invocation_index < b.record.invocation.invocation_index;
      });
      const auto& [lineage, id, number] = key;
      attempt.fate = auditor_.fate_of(lineage, id, number);
      result.emplace_back(key, std::move(attempt));
    }
    return result;
  }

 private:
  ShownAttempt* find(const AttemptKey& key) {
    const TrajectoryId& id = std::get<TrajectoryId>(key);
    if ((selection_.trajectory && *selection_.trajectory != id) || (selection_.step && *selection_.step != id.step) ||
        (!selection_.split.empty() && selection_.split != id.split)) {
      return nullptr;
    }
    const auto found = attempts_.find(key);
    if (found != attempts_.end()) {
      return &found->second;
    }
    if (static_cast<std::int64_t>(order_.size()) >= selection_.limit) {
      return nullptr;
    }
    order_.push_back(key);
    return &attempts_[key];
  }

  const ShowSelection& selection_;
  LedgerAuditor auditor_;
  std::vector<AttemptKey> order_;
  std::map<AttemptKey, ShownAttempt> attempts_;
};

Expected<void> add_divergence(const LedgerRun& run, const Tokenizer& tokenizer, PolicyLine line,
                              std::vector<std::pair<AttemptKey, ShownAttempt>>& attempts) {
  auto divergence = CallDivergence::load(run, std::move(line), tokenizer.vocab_size());
  if (!divergence) {
    return unexpected(divergence.error());
  }
  for (auto& [key, attempt] : attempts) {
    for (ShownCall& call : attempt.calls) {
      if (is_of_teacher(run, std::get<TrajectoryId>(key))) {
        call.no_divergence = "none: the teacher's own call";
        continue;
      }
      auto values = divergence->of(call.record);
      if (values) {
        call.divergence = *std::move(values);
      } else {
        call.no_divergence = "none: " + values.error().message;
      }
    }
  }
  return {};
}

}  // namespace

Expected<std::int64_t> show_ledger(const LedgerRun& run, const Tokenizer& tokenizer, const ShowSelection& selection,
                                   const ShowOptions& options, std::ostream& out) {
  auto kept = kept_policies(run);
  if (!kept) {
    return unexpected(kept.error());
  }
  PolicyLine line(*std::move(kept));
  Collection collection(selection);
  const auto read = for_each_record(run.ledger, [&](LedgerRecord record) -> Expected<void> {
    if (const auto* called = std::get_if<InvocationRecord>(&record)) {
      line.saw(*called);
    }
    collection.add(std::move(record));
    return {};
  });
  if (!read) {
    return unexpected(read.error());
  }
  auto attempts = collection.take();
  if (options.with_divergence) {
    MEMOPD_RETURN_IF_ERROR(add_divergence(run, tokenizer, std::move(line), attempts));
  }
  for (const auto& [key, attempt] : attempts) {
    if (options.is_json) {
      out << to_json(key, attempt, tokenizer) << '\n';
    } else {
      write_text(key, attempt, tokenizer, options.view, out);
    }
  }
  return static_cast<std::int64_t>(attempts.size());
}

}  // namespace memopd

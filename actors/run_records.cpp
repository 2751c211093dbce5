#include "actors/run_records.hpp"

#include <algorithm>

namespace memopd {
namespace {

constexpr std::string_view kTrainSplit = "train";

std::int32_t step_of(const std::variant<EmitInvocation, EmitTrajectory>& record) {
  const auto* const invocation = std::get_if<EmitInvocation>(&record);
  return invocation != nullptr ? invocation->invocation.trajectory_id.step
                               : std::get<EmitTrajectory>(record).trajectory.id.step;
}

}  // namespace

Expected<void> RunRecords::begin_text(const std::filesystem::path& run_folder) {
  auto text = TrajectoryTextWriter::create(run_folder / "trajectories");
  if (!text) {
    return unexpected(text.error());
  }
  text_ = *std::move(text);
  return {};
}

Expected<std::unique_ptr<RunRecords>> RunRecords::create(const std::filesystem::path& run_folder,
                                                         std::shared_ptr<const Tokenizer> tokenizer) {
  std::unique_ptr<RunRecords> records(new RunRecords(std::move(tokenizer)));
  auto ledger = LedgerWriter::create(run_folder / "ledger");
  if (!ledger) {
    return unexpected(ledger.error());
  }
  records->ledger_ = *std::move(ledger);
  MEMOPD_RETURN_IF_ERROR(records->begin_text(run_folder));
  return records;
}

Expected<std::unique_ptr<RunRecords>> RunRecords::open(const std::filesystem::path& run_folder,
                                                       std::shared_ptr<const Tokenizer> tokenizer) {
  std::unique_ptr<RunRecords> records(new RunRecords(std::move(tokenizer)));
  auto ledger = LedgerWriter::open(run_folder / "ledger", {}, [taken = records.get()](LedgerRecord record) {
    return taken->take_up(std::move(record));
  });
  if (!ledger) {
    return unexpected(ledger.error());
  }
  records->ledger_ = *std::move(ledger);
  MEMOPD_RETURN_IF_ERROR(records->begin_text(run_folder));
  // The record that makes an attempt whole and its text are written in one go: at most the last text is missing.
  if (const auto last = std::exchange(records->last_told_, std::nullopt)) {
    MEMOPD_RETURN_IF_ERROR(records->text_->append_if_missing(*last, records->texts_of(*last)));
  }
  return records;
}

Expected<void> RunRecords::take_up(LedgerRecord record) {
  if (auto* const called = std::get_if<InvocationRecord>(&record)) {
    const TrajectoryId& id = called->invocation.trajectory_id;
    const Attempt attempt{id, called->invocation.attempt};
    untold_[attempt].invocations.push_back(called->invocation);
    if (auto whole = take_whole(attempt)) {
      last_told_ = std::move(whole);
    }
    if (id.split == kTrainSplit) {
      open_steps_.records.emplace_back(EmitInvocation{std::move(called->invocation), true, called->lineage});
    }
  } else if (auto* const ended = std::get_if<TrajectoryRecord>(&record)) {
    const Attempt attempt{ended->trajectory.id, ended->trajectory.attempt};
    untold_[attempt].record = ended->trajectory;
    untold_[attempt].num_invocations = ended->num_invocations;
    if (auto whole = take_whole(attempt)) {
      last_told_ = std::move(whole);
    }
    if (ended->trajectory.id.split == kTrainSplit) {
      open_steps_.records.emplace_back(
          EmitTrajectory{std::move(ended->trajectory), ended->num_invocations, true, ended->lineage});
    }
  } else if (const auto* const closed = std::get_if<StepRecord>(&record)) {
    open_steps_.first_open_step = closed->step + 1;
    std::erase_if(open_steps_.records, [&](const auto& open) { return step_of(open) <= closed->step; });
  } else if (const auto* const back = std::get_if<RolledBackRecord>(&record)) {
    open_steps_ = {back->to_step, {}};
    untold_.clear();
    last_told_.reset();
  }
  return {};
}

Expected<AppendResult> RunRecords::add(const Invocation& invocation) {
  auto written = ledger_->append(invocation);
  if (written && *written == AppendResult::written) {
    const Attempt attempt{invocation.trajectory_id, invocation.attempt};
    untold_[attempt].invocations.push_back(invocation);
    MEMOPD_RETURN_IF_ERROR(tell_if_whole(attempt));
  }
  return written;
}

Expected<AppendResult> RunRecords::add(const Trajectory& record, std::int32_t num_invocations) {
  auto written = ledger_->append(record, num_invocations);
  if (written && *written == AppendResult::written) {
    const Attempt attempt{record.id, record.attempt};
    untold_[attempt].record = record;
    untold_[attempt].num_invocations = num_invocations;
    MEMOPD_RETURN_IF_ERROR(tell_if_whole(attempt));
  }
  return written;
}

Expected<void> RunRecords::tell_if_whole(const Attempt& attempt) {
  const auto whole = take_whole(attempt);
  return whole ? text_->append(*whole, texts_of(*whole)) : Expected<void>();
}

/// The attempt, once all its records are there; forgets it and earlier ones.
std::optional<Trajectory> RunRecords::take_whole(const Attempt& attempt) {
  Untold& untold = untold_.at(attempt);
  if (!untold.record || static_cast<std::int32_t>(untold.invocations.size()) < untold.num_invocations) {
    return std::nullopt;
  }
  Trajectory trajectory = *std::move(untold.record);
  trajectory.invocations = std::move(untold.invocations);
  std::sort(trajectory.invocations.begin(), trajectory.invocations.end(),
            [](const Invocation& a, const Invocation& b) { return a.invocation_index < b.invocation_index; });
  std::erase_if(untold_, [&](const auto& entry) {
    return entry.first.first == attempt.first && entry.first.second <= attempt.second;
  });
  return trajectory;
}

std::vector<CallText> RunRecords::texts_of(const Trajectory& trajectory) const {
  std::vector<CallText> calls;
  for (const Invocation& invocation : trajectory.invocations) {
    calls.push_back(
        {tokenizer_->decode(invocation.prompt_token_ids), tokenizer_->decode(invocation.response_token_ids)});
  }
  return calls;
}

Expected<void> RunRecords::record_step(const RecordStep& request, std::int32_t keep_steps) {
  for (const DroppedFromStep& dropped : request.dropped) {
    MEMOPD_RETURN_IF_ERROR(ledger_->append_dropped(dropped.trajectory_id, dropped.attempt, dropped.reason));
  }
  MEMOPD_RETURN_IF_ERROR(ledger_->append_step(request.step, request.policy_version, request.trajectory_ids));
  MEMOPD_RETURN_IF_ERROR(ledger_->sync());
  std::erase_if(untold_, [&](const auto& entry) {
    return entry.first.first.split == kTrainSplit && entry.first.first.step <= request.step;
  });
  if (keep_steps > 0) {
    MEMOPD_RETURN_IF_ERROR(ledger_->prune(keep_steps));
  }
  return {};
}

Expected<std::int64_t> RunRecords::begin_lineage(const BeginLineage& request) {
  const bool has_begun = request.lineage != BeginLineage::kWhatTheLedgerHas && ledger_->lineage() > request.lineage;
  if (!has_begun) {
    MEMOPD_RETURN_IF_ERROR(ledger_->append_rolled_back(request.from_step, request.to_step));
  }
  MEMOPD_RETURN_IF_ERROR(ledger_->sync());
  untold_.clear();
  text_->close();
  return ledger_->lineage();
}

}  // namespace memopd

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
  // Record and text are written in one go, so at most the newest record lacks its text.
  if (const auto last = std::exchange(records->last_told_, std::nullopt)) {
    MEMOPD_RETURN_IF_ERROR(records->text_->append_if_missing(*last, records->texts_of(*last)));
  }
  return records;
}

Expected<void> RunRecords::take_up(LedgerRecord record) {
  if (auto* const called = std::get_if<InvocationRecord>(&record)) {
    const TrajectoryId& id = called->invocation.trajectory_id;
    untold_[{id, called->invocation.attempt}].push_back(called->invocation);
    if (id.split == kTrainSplit) {
      open_steps_.records.emplace_back(EmitInvocation{std::move(called->invocation), true, called->lineage});
    }
  } else if (auto* const ended = std::get_if<TrajectoryRecord>(&record)) {
    last_told_ = whole(ended->trajectory);
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
    untold_[{invocation.trajectory_id, invocation.attempt}].push_back(invocation);
  }
  return written;
}

Expected<AppendResult> RunRecords::add(const Trajectory& record, std::int32_t num_invocations) {
  auto written = ledger_->append(record, num_invocations);
  if (written && *written == AppendResult::written) {
    const Trajectory told = whole(record);
    MEMOPD_RETURN_IF_ERROR(text_->append(told, texts_of(told)));
  }
  return written;
}

/// The record with its invocations; forgets those of this and earlier attempts.
Trajectory RunRecords::whole(const Trajectory& record) {
  Trajectory trajectory = record;
  if (auto recorded = untold_.extract({record.id, record.attempt})) {
    trajectory.invocations = std::move(recorded.mapped());
  }
  std::erase_if(untold_, [&](const auto& entry) {
    return entry.first.first == record.id && entry.first.second < record.attempt;
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

#include "actors/step_assembler.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/alignpack/align_pack.hpp"

namespace memopd {
namespace {

std::string describe(const Invocation& invocation) {
  return "trajectory " + to_string(invocation.trajectory_id) + ", attempt " + std::to_string(invocation.attempt) +
         ", invocation " + std::to_string(invocation.invocation_index);
}

std::int64_t num_tokens(const Invocation& invocation) {
  return static_cast<std::int64_t>(invocation.prompt_token_ids.size() + invocation.response_token_ids.size());
}

}  // namespace

StepAssembler::StepAssembler(const PackConfig& config, bool needs_scores, PackHistory pack_history)
    : config_(config), needs_scores_(needs_scores), pack_history_(std::move(pack_history)) {}

bool StepAssembler::is_late(const TrajectoryId& id) {
  num_late_ += id.step < first_open_step_ ? 1 : 0;
  return id.step < first_open_step_;
}

Expected<bool> StepAssembler::add(const Invocation& invocation) {
  if (is_late(invocation.trajectory_id)) {
    return false;
  }
  Attempt& attempt = attempts_[invocation.trajectory_id][invocation.attempt];
  const auto [place, is_new] = attempt.invocations.try_emplace(invocation.invocation_index, invocation);
  if (!is_new) {
    ++num_repeats_;
    if (place->second.prompt_token_ids != invocation.prompt_token_ids ||
        place->second.response_token_ids != invocation.response_token_ids) {
      return unexpected(ErrorCode::already_exists, describe(invocation) + ": came again with other ids");
    }
    return false;
  }
  if (pack_history_) {
    queue_if_whole(invocation.trajectory_id, attempt);
  } else if (needs_scores_ && !invocation.response_token_ids.empty()) {
    waiting_.emplace_back(invocation.trajectory_id, invocation.attempt, invocation.invocation_index);
  }
  return true;
}

Expected<bool> StepAssembler::add(const EmitTrajectory& record) {
  if (is_late(record.trajectory.id)) {
    return false;
  }
  Attempt& attempt = attempts_[record.trajectory.id][record.trajectory.attempt];
  if (attempt.record) {
    ++num_repeats_;
    return false;
  }
  attempt.record = record;
  queue_if_whole(record.trajectory.id, attempt);
  return true;
}

void StepAssembler::queue_if_whole(const TrajectoryId& id, Attempt& attempt) {
  if (!pack_history_ || !needs_scores_ || attempt.is_queued || !has_everything(attempt)) {
    return;
  }
  attempt.is_queued = true;
  const bool has_response = std::any_of(attempt.invocations.begin(), attempt.invocations.end(),
                                        [](const auto& entry) { return !entry.second.response_token_ids.empty(); });
  if (has_response && is_trained(attempt.record->trajectory.status)) {
    waiting_.emplace_back(id, attempt.record->trajectory.attempt, 0);
  }
}

Expected<std::optional<TeacherPack>> StepAssembler::next_pack(bool is_closing) {
  if (waiting_.empty() || (config_.teacher_flush == "step" && !is_closing)) {
    return std::optional<TeacherPack>();
  }
  auto packed = pack_history_ ? pack_trajectory() : pack_invocations();
  if (!packed) {
    return unexpected(packed.error());
  }
  TeacherPack pack{next_pack_++, std::make_shared<const PackedBatch>(*std::move(packed)), 0};
  for (const PackedInvocation& invocation : pack.pack->invocations) {
    pack.step = std::max(pack.step, invocation.trajectory_id.step);
  }
  in_flight_.emplace(pack.number, pack.pack);
  return std::optional<TeacherPack>(std::move(pack));
}

Expected<PackedBatch> StepAssembler::pack_trajectory() {
  const auto [id, attempt, index] = waiting_.front();
  waiting_.pop_front();
  auto packs = pack_history_(whole(attempts_.at(id).at(attempt)));
  if (!packs) {
    return unexpected(packs.error());
  }
  MEMOPD_CHECK(packs->size() == 1, "the history of one trajectory is one pack");
  return std::move(packs->front());
}

Expected<PackedBatch> StepAssembler::pack_invocations() {
  // The sum of lengths bounds the unique tokens, so what is chosen here fits one pack.
  std::vector<const Invocation*> chosen;
  std::int64_t tokens = 0;
  const std::int64_t budget = std::min(config_.teacher_pack_tokens, config_.max_tokens);
  while (!waiting_.empty()) {
    const auto& [id, attempt, index] = waiting_.front();
    const Invocation& invocation = attempts_.at(id).at(attempt).invocations.at(index);
    if (!chosen.empty() && (config_.teacher_flush == "invocation" || tokens + num_tokens(invocation) > budget)) {
      break;
    }
    tokens += num_tokens(invocation);
    chosen.push_back(&invocation);
    waiting_.pop_front();
  }
  auto packs = align_pack(chosen, {config_.max_tokens, config_.share_prefixes, config_.min_shared_tokens});
  if (!packs) {
    return unexpected(packs.error());
  }
  MEMOPD_CHECK(packs->size() == 1, "a chosen set exceeds one pack");
  return std::move(packs->front());
}

Expected<void> StepAssembler::scored(std::int64_t pack_number, const PackScored& answer, const TeacherScores& scores) {
  const auto found = in_flight_.find(pack_number);
  if (found == in_flight_.end()) {
    return {};  // a late repeat
  }
  const PackedBatch& pack = *found->second;
  const auto num_rows = static_cast<std::int64_t>(scores.row_valid.size());
  if (num_rows != pack.num_response_tokens()) {
    const PackedInvocation& first = pack.invocations.front();
    return unexpected(ErrorCode::row_count_mismatch,
                      "teacher scores of the pack that begins with trajectory " + to_string(first.trajectory_id) +
                          ", invocation " + std::to_string(first.invocation_index) + ": " + std::to_string(num_rows) +
                          " rows for " + std::to_string(pack.num_response_tokens()) + " response tokens");
  }
  for (std::size_t i = 0; i < pack.invocations.size(); ++i) {
    const PackedInvocation& packed = pack.invocations[i];
    const auto trajectory = attempts_.find(packed.trajectory_id);
    if (trajectory == attempts_.end()) {
      continue;  // its step was closed without it
    }
    trajectory->second[packed.attempt].scores[packed.invocation_index] =
        ScoreRef{packed.trajectory_id,    packed.attempt,
                 packed.invocation_index, answer.scores,
                 packed.response_begin,   packed.response_end,
                 answer.head_fingerprint, i < scores.digests.size() ? scores.digests[i] : Digest{}};
  }
  in_flight_.erase(found);
  return {};
}

void StepAssembler::failed(std::int64_t pack_number) {
  const auto found = in_flight_.find(pack_number);
  if (found == in_flight_.end()) {
    return;
  }
  for (const PackedInvocation& packed : found->second->invocations) {
    if (const auto trajectory = attempts_.find(packed.trajectory_id); trajectory != attempts_.end()) {
      trajectory->second[packed.attempt].is_unscored = true;
    }
  }
  in_flight_.erase(found);
}

bool StepAssembler::has_everything(const Attempt& attempt) {
  return attempt.record && static_cast<std::int32_t>(attempt.invocations.size()) >= attempt.record->num_invocations;
}

Trajectory StepAssembler::whole(const Attempt& attempt) {
  Trajectory trajectory = attempt.record->trajectory;
  for (const auto& [index, invocation] : attempt.invocations) {
    trajectory.invocations.push_back(invocation);
  }
  return trajectory;
}

bool StepAssembler::is_complete(const Attempt& attempt) const {
  if (!has_everything(attempt)) {
    return false;
  }
  if (!needs_scores_ || attempt.is_unscored || !is_trained(attempt.record->trajectory.status)) {
    return true;
  }
  return std::all_of(attempt.invocations.begin(), attempt.invocations.end(), [&](const auto& entry) {
    return entry.second.response_token_ids.empty() || attempt.scores.contains(entry.first);
  });
}

const StepAssembler::Attempt* StepAssembler::counting_attempt(const TrajectoryId& id) const {
  const auto found = attempts_.find(id);
  if (found == attempts_.end()) {
    return nullptr;
  }
  for (auto attempt = found->second.rbegin(); attempt != found->second.rend(); ++attempt) {
    if (attempt->second.record) {
      return &attempt->second;
    }
  }
  return nullptr;
}

bool StepAssembler::is_complete(const CloseStep& request) const {
  return std::all_of(request.trajectory_ids.begin(), request.trajectory_ids.end(), [&](const TrajectoryId& id) {
    const Attempt* attempt = counting_attempt(id);
    return attempt != nullptr && is_complete(*attempt);
  });
}

StepBatch StepAssembler::close(const CloseStep& request) {
  StepBatch batch;
  batch.lineage = request.lineage;
  batch.step = request.step;
  batch.policy_version = request.policy_version;
  std::vector<TrajectoryId> ids = request.trajectory_ids;
  std::sort(ids.begin(), ids.end());
  std::int64_t num_kept = 0;
  for (const TrajectoryId& id : ids) {
    const Attempt* attempt = counting_attempt(id);
    if (attempt == nullptr) {
      continue;
    }
    ++num_kept;
    Trajectory trajectory = whole(*attempt);
    if (attempt->is_unscored && is_trained(trajectory.status)) {
      trajectory.status = TrajectoryStatus::teacher_unavailable;
    }
    for (const auto& [index, score] : attempt->scores) {
      batch.scores.push_back(score);
    }
    batch.trajectories.push_back(std::move(trajectory));
  }
  num_superseded_ += skip_to(request.step + 1) - num_kept;
  return batch;
}

std::int64_t StepAssembler::skip_to(std::int32_t step) {
  first_open_step_ = std::max(first_open_step_, step);
  std::int64_t num_attempts = 0;
  std::erase_if(attempts_, [&](const auto& entry) {
    const bool is_closed = entry.first.step < first_open_step_;
    num_attempts += is_closed ? static_cast<std::int64_t>(entry.second.size()) : 0;
    return is_closed;
  });
  std::erase_if(waiting_, [&](const Key& key) { return std::get<0>(key).step < first_open_step_; });
  std::erase_if(in_flight_, [&](const auto& entry) {
    const auto& invocations = entry.second->invocations;
    return std::all_of(invocations.begin(), invocations.end(),
                       [&](const PackedInvocation& packed) { return packed.trajectory_id.step < first_open_step_; });
  });
  return num_attempts;
}

}  // namespace memopd

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

StepAssembler::StepAssembler(const PackConfig& config, bool needs_scores)
    : config_(config), needs_scores_(needs_scores) {}

Expected<bool> StepAssembler::add(const Invocation& invocation) {
  auto& known = attempts_[invocation.trajectory_id][invocation.attempt].invocations;
  const auto [place, is_new] = known.try_emplace(invocation.invocation_index, invocation);
  if (!is_new) {
    ++num_repeats_;
    if (place->second.prompt_token_ids != invocation.prompt_token_ids ||
        place->second.response_token_ids != invocation.response_token_ids) {
      return unexpected(ErrorCode::already_exists, describe(invocation) + ": came again with other ids");
    }
    return false;
  }
  if (needs_scores_ && !invocation.response_token_ids.empty()) {
    waiting_.emplace_back(invocation.trajectory_id, invocation.attempt, invocation.invocation_index);
  }
  return true;
}

Expected<bool> StepAssembler::add(const EmitTrajectory& record) {
  auto& known = attempts_[record.trajectory.id][record.trajectory.attempt].record;
  if (known) {
    ++num_repeats_;
    return false;
  }
  known = record;
  return true;
}

Expected<std::optional<TeacherPack>> StepAssembler::next_pack(bool is_closing) {
  if (waiting_.empty() || (config_.teacher_flush == "step" && !is_closing)) {
    return std::optional<TeacherPack>();
  }
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
  TeacherPack pack{next_pack_++, std::make_shared<const PackedBatch>(std::move(packs->front()))};
  in_flight_.emplace(pack.number, pack.pack);
  return std::optional<TeacherPack>(std::move(pack));
}

Expected<void> StepAssembler::scored(std::int64_t pack_number, const PackScored& scores, std::int64_t num_rows) {
  const auto found = in_flight_.find(pack_number);
  if (found == in_flight_.end()) {
    return {};  // a late repeat
  }
  const PackedBatch& pack = *found->second;
  if (num_rows != pack.num_response_tokens()) {
    const PackedInvocation& first = pack.invocations.front();
    return unexpected(ErrorCode::row_count_mismatch,
                      "teacher scores of the pack that begins with trajectory " + to_string(first.trajectory_id) +
                          ", invocation " + std::to_string(first.invocation_index) + ": " + std::to_string(num_rows) +
                          " rows for " + std::to_string(pack.num_response_tokens()) + " response tokens");
  }
  for (const PackedInvocation& packed : pack.invocations) {
    const auto trajectory = attempts_.find(packed.trajectory_id);
    if (trajectory == attempts_.end()) {
      continue;  // its step was closed without it
    }
    trajectory->second[packed.attempt].scores[packed.invocation_index] =
        ScoreRef{packed.trajectory_id,  packed.attempt,      packed.invocation_index, scores.scores,
                 packed.response_begin, packed.response_end, scores.head_fingerprint, packed.digest};
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

bool StepAssembler::is_complete(const Attempt& attempt) const {
  if (!attempt.record || static_cast<std::int32_t>(attempt.invocations.size()) < attempt.record->num_invocations) {
    return false;
  }
  if (!needs_scores_ || attempt.is_unscored) {
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
    Trajectory trajectory = attempt->record->trajectory;
    for (const auto& [index, invocation] : attempt->invocations) {
      trajectory.invocations.push_back(invocation);
    }
    if (attempt->is_unscored && is_trained(trajectory.status)) {
      trajectory.status = TrajectoryStatus::teacher_unavailable;
    }
    for (const auto& [index, score] : attempt->scores) {
      batch.scores.push_back(score);
    }
    batch.trajectories.push_back(std::move(trajectory));
  }
  std::int64_t num_attempts = 0;
  for (const auto& [id, attempts] : attempts_) {
    num_attempts += static_cast<std::int64_t>(attempts.size());
  }
  num_superseded_ += num_attempts - num_kept;
  attempts_.clear();
  waiting_.clear();
  in_flight_.clear();
  return batch;
}

}  // namespace memopd

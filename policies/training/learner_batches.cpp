// The first phases of a step: this rank's teacher scores, and its packs.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "policies/training/learner_impl.hpp"
#include "runtime/alignpack/history_pack.hpp"

namespace memopd {
namespace {

/// Tokens of a trajectory's calls, for an even split over threads; shared prefixes are counted in each call.
std::int64_t num_call_tokens(const Trajectory& trajectory) {
  std::int64_t num_tokens = 0;
  for (const Invocation& invocation : trajectory.invocations) {
    num_tokens += static_cast<std::int64_t>(invocation.prompt_token_ids.size() + invocation.response_token_ids.size());
  }
  return num_tokens;
}

using ScoresOfItem = std::vector<std::shared_ptr<const TeacherScores>>;

void append_scored(const Trajectory& trajectory, const Selection::Item& item, const ScoresOfItem& scores,
                   std::vector<ScoredInvocation>& invocations) {
  for (std::size_t j = 0; j < trajectory.invocations.size(); ++j) {
    if (!trajectory.invocations[j].response_token_ids.empty()) {
      const bool has_scores = item.scores[j] != nullptr;
      invocations.push_back({&trajectory.invocations[j], item.trajectory, has_scores ? scores[j] : nullptr,
                             has_scores ? item.scores[j]->row_begin : 0,
                             has_scores ? item.scores[j]->digest : Digest{}});
    }
  }
}

/// Packs of whole trajectories, whose tables name the invocations with response tokens.
Expected<std::vector<PackedBatch>> pack(const std::vector<const Trajectory*>& trajectories, const PackConfig& config,
                                        bool is_flat) {
  const AlignPackOptions options{config.max_tokens, config.share_prefixes, config.min_shared_tokens};
  if (is_flat) {
    return pack_histories(trajectories, HistoryState::persistent_history, options);
  }
  std::vector<const Invocation*> invocations;
  for (const Trajectory* const trajectory : trajectories) {
    for (const Invocation& invocation : trajectory->invocations) {
      if (!invocation.response_token_ids.empty()) {
        invocations.push_back(&invocation);
      }
    }
  }
  return align_pack(invocations, options);
}

}  // namespace

Expected<LearnerImpl::Prepared> LearnerImpl::prepare(const StepBatch& step, const ScoreLookup& lookup,
                                                     StepMetrics& metrics) {
  Expected<Selection> selection = select_trajectories(step, selection_rules());
  if (!selection) {
    return unexpected(selection.error());
  }
  const Parts parts =
      cut_mini_batches(selection->items.size(), setup_.learner.mini_batch_trajectories, setup_.seed, step.step);
  Expected<FetchedScores> scores = fetch_scores(step, *selection, parts, lookup);
  if (!scores) {
    return unexpected(scores.error());
  }
  Expected<std::vector<MiniBatch>> mini_batches = make_mini_batches(step, *selection, parts, *scores);
  MEMOPD_RETURN_IF_ERROR(agree(mini_batches ? check_digests(step, *mini_batches, metrics)
                                            : Expected<void>(unexpected(mini_batches.error()))));
  Prepared prepared{std::move(*selection), std::move(*scores), {}, std::move(*mini_batches)};
  for (std::size_t i = 0; i < prepared.selection.items.size(); ++i) {
    if (prepared.scores.is_lost[i] == 0) {
      prepared.trained.push_back(prepared.selection.items[i].trajectory);
    }
  }
  return prepared;
}

Expected<void> LearnerImpl::agree(const Expected<void>& mine) {
  double num_failed = mine ? 0.0 : 1.0;
  MEMOPD_RETURN_IF_ERROR(collective_->all_reduce_sum(std::span<double>(&num_failed, 1)));
  MEMOPD_RETURN_IF_ERROR(mine);
  return num_failed > 0 ? Expected<void>(unexpected(ErrorCode::refused, "another learner rank refused its share"))
                        : Expected<void>();
}

Expected<void> LearnerImpl::check_digests(const StepBatch& step, const std::vector<MiniBatch>& mini_batches,
                                          StepMetrics& metrics) const {
  std::string first;
  std::int64_t num_checked = 0;
  std::int64_t num_mismatched = 0;
  for (const MiniBatch& mini_batch : mini_batches) {
    for (const MicroBatch& batch : mini_batch.micro_batches) {
      for (const InvocationRows& rows : batch.invocations) {
        num_checked += is_comparable(rows.digests) ? 1 : 0;
        if (const std::string who = disagreement(rows.digests); !who.empty()) {
          num_mismatched += 1;
          first = first.empty() ? "trajectory " + to_string(step.trajectories[rows.trajectory].id) + ", invocation " +
                                      std::to_string(rows.invocation_index) + ": " + who
                                : first;
        }
      }
    }
  }
  metrics.add("digests", static_cast<double>(num_checked));
  metrics.add("digest_mismatches", static_cast<double>(num_mismatched));
  if (num_mismatched > 0 && is_aligned()) {
    return unexpected(ErrorCode::digest_mismatch, first + "; " + std::to_string(num_mismatched) + " of " +
                                                      std::to_string(num_checked) + " invocations differ");
  }
  return {};
}

bool LearnerImpl::is_mine(std::size_t index) const {
  return static_cast<int>(index % static_cast<std::size_t>(collective_->world_size())) == collective_->rank();
}

Expected<LearnerImpl::FetchedScores> LearnerImpl::fetch_scores(const StepBatch& step, const Selection& selection,
                                                               const Parts& parts, const ScoreLookup& lookup) {
  const std::size_t num_items = selection.items.size();
  FetchedScores fetched;
  fetched.of_item.resize(num_items);
  fetched.is_lost.assign(num_items, 0);
  if (!has_opd()) {
    return fetched;
  }
  // One object holds the scores of many invocations. The last flag tells the other ranks of an error here, as agree().
  ScoreObjects objects;
  std::vector<double> flags(num_items + 1, 0.0);
  Expected<void> first_error;
  for (const std::vector<std::size_t>& part : parts) {
    for (std::size_t place = 0; place < part.size(); ++place) {
      const std::size_t item = part[place];
      if (is_mine(place) && first_error) {
        first_error = fetch_item(step, selection.items[item], lookup, objects, fetched.of_item[item], flags[item]);
      }
    }
  }
  flags.back() = first_error ? 0.0 : 1.0;
  MEMOPD_RETURN_IF_ERROR(collective_->all_reduce_sum(std::span<double>(flags)));
  if (!first_error) {
    return unexpected(first_error.error());
  }
  if (flags.back() > 0) {
    return unexpected(ErrorCode::refused, "another learner rank refused its teacher scores");
  }
  for (std::size_t i = 0; i < num_items; ++i) {
    fetched.is_lost[i] = flags[i] > 0 ? 1 : 0;
  }
  return fetched;
}

Expected<void> LearnerImpl::fetch_item(const StepBatch& step, const Selection::Item& item, const ScoreLookup& lookup,
                                       ScoreObjects& objects, std::vector<std::shared_ptr<const TeacherScores>>& scores,
                                       double& lost_flag) const {
  const Trajectory& trajectory = step.trajectories[item.trajectory];
  for (std::size_t j = 0; j < item.scores.size(); ++j) {
    const ScoreRef* const reference = item.scores[j];
    if (reference == nullptr) {
      scores.emplace_back();
      continue;
    }
    auto found = objects.find(reference->object);
    if (found == objects.end()) {
      Expected<std::shared_ptr<const TeacherScores>> object = lookup(reference->object);
      found = objects.emplace(reference->object, object ? *object : nullptr).first;
    }
    if (found->second == nullptr) {
      lost_flag = 1;
      return {};
    }
    scores.push_back(found->second);
    const ScoredInvocation scored{&trajectory.invocations[j], item.trajectory, found->second, reference->row_begin};
    MEMOPD_RETURN_IF_ERROR(check_scores(scored, models_.teacher_head_VE.size(1)));
  }
  return {};
}

Expected<std::vector<MiniBatch>> LearnerImpl::make_mini_batches(const StepBatch& step, const Selection& selection,
                                                                const Parts& parts, const FetchedScores& scores) const {
  std::vector<MiniBatch> mini_batches;
  for (const std::vector<std::size_t>& part : parts) {
    Expected<MiniBatch> mini_batch = make_mini_batch(step, selection, part, scores);
    if (!mini_batch) {
      return unexpected(mini_batch.error());
    }
    if (mini_batch->num_trajectories > 0) {
      mini_batches.push_back(std::move(*mini_batch));
    }
  }
  return mini_batches;
}

Expected<MiniBatch> LearnerImpl::make_mini_batch(const StepBatch& step, const Selection& selection,
                                                 const std::vector<std::size_t>& part,
                                                 const FetchedScores& scores) const {
  MiniBatch mini_batch;
  std::vector<std::size_t> mine;
  std::vector<std::int64_t> num_tokens;
  for (std::size_t place = 0; place < part.size(); ++place) {
    const std::size_t item = part[place];
    if (scores.is_lost[item] != 0) {
      continue;
    }
    const Trajectory& trajectory = step.trajectories[selection.items[item].trajectory];
    mini_batch.num_trajectories += 1;
    mini_batch.num_response_tokens += num_response_tokens(trajectory);
    if (is_mine(place)) {
      mine.push_back(item);
      num_tokens.push_back(num_call_tokens(trajectory));
    }
  }
  const std::int64_t teacher_width = has_opd() ? models_.teacher_head_VE.size(1) : 0;
  for (const std::vector<std::size_t>& group : split_by_tokens(num_tokens, setup_.learner.num_threads)) {
    std::vector<const Trajectory*> trajectories;
    std::vector<ScoredInvocation> invocations;
    for (const std::size_t index : group) {
      const Selection::Item& item = selection.items[mine[index]];
      trajectories.push_back(&step.trajectories[item.trajectory]);
      append_scored(*trajectories.back(), item, scores.of_item[mine[index]], invocations);
    }
    const Expected<std::vector<PackedBatch>> packs = pack(trajectories, setup_.pack, is_flat());
    if (!packs) {
      return unexpected(packs.error());
    }
    Expected<std::vector<MicroBatch>> micro_batches =
        make_micro_batches(invocations, *packs, teacher_width, models_.student.dtype());
    if (!micro_batches) {
      return unexpected(micro_batches.error());
    }
    std::move(micro_batches->begin(), micro_batches->end(), std::back_inserter(mini_batch.micro_batches));
  }
  return mini_batch;
}

}  // namespace memopd

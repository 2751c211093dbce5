// The middle phases of a step: old log-probs and values of every row, then advantages and weights.
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "policies/training/advantages.hpp"
#include "policies/training/learner_impl.hpp"
#include "policies/training/policy_gradient.hpp"

namespace memopd {
namespace {

using RowsOfTrajectory = std::vector<std::pair<MicroBatch*, InvocationRows>>;

/// log_prob - reference log_prob of a row; 0 where it is not finite: such a row is excluded.
double reference_gap(const MicroBatch& batch, std::size_t row) {
  const double gap = batch.old_log_probs[row] - batch.reference_log_probs[row];
  return std::isfinite(gap) ? gap : 0.0;
}

/// Gathers the rows of one trajectory in time order, runs GAE over them, and scatters the result.
void credit_trajectory(const Trajectory& trajectory, const RowsOfTrajectory& parts, const PpoConfig& ppo) {
  std::vector<double> rewards = token_rewards(trajectory);
  std::vector<double> values;
  for (const auto& [batch, rows] : parts) {
    values.insert(values.end(), batch->old_values.begin() + static_cast<std::ptrdiff_t>(rows.begin),
                  batch->old_values.begin() + static_cast<std::ptrdiff_t>(rows.end));
    for (std::size_t r = rows.begin; ppo.reference_kl_coef > 0 && r < rows.end; ++r) {
      rewards[values.size() - (rows.end - r)] -= ppo.reference_kl_coef * reference_gap(*batch, r);
    }
  }
  std::vector<double> advantages(values.size());
  std::vector<double> returns(values.size());
  gae(rewards, values, ppo.gamma, ppo.lambda, advantages, returns);
  std::size_t next = 0;
  for (const auto& [batch, rows] : parts) {
    const std::size_t count = rows.end - rows.begin;
    std::copy_n(advantages.begin() + static_cast<std::ptrdiff_t>(next), count,
                batch->advantages.begin() + static_cast<std::ptrdiff_t>(rows.begin));
    std::copy_n(returns.begin() + static_cast<std::ptrdiff_t>(next), count,
                batch->returns.begin() + static_cast<std::ptrdiff_t>(rows.begin));
    next += count;
  }
}

/// 1/R, or 1/(trajectories x length) when the mean is over sequences: excluded rows stay in both.
void weigh_rows(const StepBatch& step, const MiniBatch& mini_batch, bool is_sequence_mean, MicroBatch& batch) {
  for (const InvocationRows& rows : batch.invocations) {
    const double denominator =
        is_sequence_mean
            ? static_cast<double>(mini_batch.num_trajectories * num_response_tokens(step.trajectories[rows.trajectory]))
            : static_cast<double>(mini_batch.num_response_tokens);
    std::fill(batch.policy_weights.begin() + static_cast<std::ptrdiff_t>(rows.begin),
              batch.policy_weights.begin() + static_cast<std::ptrdiff_t>(rows.end), 1.0 / denominator);
  }
}

/// @param reads_rollout  rollout log-probs weigh the rows
void exclude_non_finite(bool reads_rollout, MicroBatch& batch) {
  for (std::size_t r = 0; r < batch.num_rows(); ++r) {
    if (!(std::isfinite(batch.old_log_probs[r]) && std::isfinite(batch.reference_log_probs[r]) &&
          std::isfinite(batch.old_values[r]) && std::isfinite(batch.advantages[r]) && std::isfinite(batch.returns[r]) &&
          (!reads_rollout || std::isfinite(batch.rollout_log_probs[r])))) {
      batch.is_included[r] = 0;
      batch.advantages[r] = 0;
    }
  }
}

std::vector<MicroBatch*> all_micro_batches(std::vector<MiniBatch>& mini_batches) {
  std::vector<MicroBatch*> batches;
  for (MiniBatch& mini_batch : mini_batches) {
    for (MicroBatch& batch : mini_batch.micro_batches) {
      batches.push_back(&batch);
    }
  }
  return batches;
}

}  // namespace

Expected<void> LearnerImpl::look(std::vector<MiniBatch>& mini_batches) {
  const std::vector<MicroBatch*> batches = all_micro_batches(mini_batches);
  return threads_.run(static_cast<std::int64_t>(batches.size()), [&](std::int64_t index) -> Expected<void> {
    look_at(*batches[static_cast<std::size_t>(index)]);
    return {};
  });
}

void LearnerImpl::look_at(MicroBatch& batch) const {
  const c10::NoGradGuard no_grad;
  const std::vector<std::uint8_t> every_row(batch.num_rows(), 1);
  HeadRows rows;
  rows.token_ids = batch.token_ids;
  rows.is_included = every_row;
  if (models_.reference) {
    rows.rows_RD = student_rows(*models_.reference, batch.tensors);
    rows.head_VD = models_.reference->head_weight();
    batch.reference_log_probs = head_log_probs(losses_, rows).log_probs;
  }
  rows.rows_RD = student_rows(models_.student, batch.tensors);
  rows.head_VD = models_.student.head_weight().detach();
  batch.old_log_probs = head_log_probs(losses_, rows).log_probs;
  if (models_.critic) {
    batch.old_values = to_vector(models_.critic->values(batch.tensors, rows.rows_RD));
  }
}

Expected<void> LearnerImpl::credit(const StepBatch& step, Prepared& prepared, StepMetrics& metrics) {
  const std::vector<MicroBatch*> batches = all_micro_batches(prepared.mini_batches);
  RowsByTrajectory by_trajectory;
  for (MicroBatch* const batch : batches) {
    metrics.add_rollout_gap(*batch);
    for (const InvocationRows& rows : batch->invocations) {
      by_trajectory[rows.trajectory].emplace_back(batch, rows);
    }
  }
  if (has_ppo() && estimator_ == Estimator::gae) {
    for (const auto& [trajectory, rows] : by_trajectory) {
      credit_trajectory(step.trajectories[trajectory], rows, setup_.ppo);
    }
  } else if (has_ppo()) {
    MEMOPD_RETURN_IF_ERROR(credit_groups(step, prepared.trained, by_trajectory, metrics));
  }
  for (MiniBatch& mini_batch : prepared.mini_batches) {
    for (MicroBatch& batch : mini_batch.micro_batches) {
      weigh_rows(step, mini_batch, setup_.ppo.loss_mean == "sequence", batch);
      exclude_non_finite(is_decoupled(), batch);
      metrics.add("excluded_rows",
                  static_cast<double>(std::count(batch.is_included.begin(), batch.is_included.end(), 0)));
      if (models_.reference) {
        metrics.add_reference(batch);
      }
    }
  }
  return has_ppo() ? whiten_and_weigh(batches, metrics) : Expected<void>();
}

Expected<void> LearnerImpl::credit_groups(const StepBatch& step, const std::vector<std::size_t>& trained,
                                          const RowsByTrajectory& by_trajectory, StepMetrics& metrics) {
  // Rewards are known everywhere; the penalty of a trajectory where its rows are.
  std::vector<double> penalties(trained.size(), 0.0);
  for (std::size_t i = 0; models_.reference && i < trained.size(); ++i) {
    if (const auto found = by_trajectory.find(trained[i]); found != by_trajectory.end()) {
      for (const auto& [batch, rows] : found->second) {
        for (std::size_t r = rows.begin; r < rows.end; ++r) {
          penalties[i] += setup_.ppo.reference_kl_coef * reference_gap(*batch, r);
        }
      }
    }
  }
  if (models_.reference) {
    MEMOPD_RETURN_IF_ERROR(collective_->all_reduce_sum(std::span<double>(penalties)));
  }
  std::vector<TrajectoryId> ids;
  std::vector<double> returns;
  for (std::size_t i = 0; i < trained.size(); ++i) {
    const std::vector<double> rewards = token_rewards(step.trajectories[trained[i]]);
    ids.push_back(step.trajectories[trained[i]].id);
    returns.push_back(std::accumulate(rewards.begin(), rewards.end(), 0.0) - penalties[i]);
  }
  const GroupAdvantages groups = group_advantages(ids, returns, estimator_);
  metrics.add("single_groups", collective_->rank() == 0 ? static_cast<double>(groups.num_single_groups) : 0.0);
  for (std::size_t i = 0; i < trained.size(); ++i) {
    if (const auto found = by_trajectory.find(trained[i]); found != by_trajectory.end()) {
      for (const auto& [batch, rows] : found->second) {
        std::fill(batch->advantages.begin() + static_cast<std::ptrdiff_t>(rows.begin),
                  batch->advantages.begin() + static_cast<std::ptrdiff_t>(rows.end), groups.advantages[i]);
      }
    }
  }
  return {};
}

Expected<void> LearnerImpl::whiten_and_weigh(const std::vector<MicroBatch*>& batches, StepMetrics& metrics) {
  std::vector<double> advantages;
  std::vector<std::uint8_t> is_included;
  for (const MicroBatch* const batch : batches) {
    advantages.insert(advantages.end(), batch->advantages.begin(), batch->advantages.end());
    is_included.insert(is_included.end(), batch->is_included.begin(), batch->is_included.end());
  }
  if (setup_.ppo.whiten_advantages && estimator_ != Estimator::grpo) {
    MEMOPD_RETURN_IF_ERROR(whiten(advantages, is_included, *collective_));
  }
  auto next = advantages.begin();
  for (MicroBatch* const batch : batches) {
    for (std::size_t r = 0; r < batch->num_rows(); ++r, ++next) {
      // The PPO term is homogeneous in the advantage: a positive weight of one is a weight of the other.
      const double weight = is_decoupled() && batch->is_included[r] != 0
                                ? rollout_weight(batch->old_log_probs[r], batch->rollout_log_probs[r], setup_.ppo)
                                : 1.0;
      batch->advantages[r] = *next * weight;
      if (is_decoupled() && batch->is_included[r] != 0) {
        metrics.add("rollout_weight", weight);
        metrics.add("rollout_weight_rows", 1);
      }
    }
    metrics.add_returns(*batch);
  }
  return {};
}

}  // namespace memopd

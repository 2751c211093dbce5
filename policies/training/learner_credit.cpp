// The middle phases of a step: old log-probs and values of every row, then advantages and weights.
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "policies/training/advantages.hpp"
#include "policies/training/learner_impl.hpp"
#include "policies/training/policy_gradient.hpp"

namespace memopd {
namespace {

using RowsOfTrajectory = std::vector<std::pair<MicroBatch*, InvocationRows>>;

/// Gathers the rows of one trajectory in time order, runs GAE over them, and scatters the result.
void credit_trajectory(const Trajectory& trajectory, const RowsOfTrajectory& parts, const PpoConfig& ppo) {
  std::vector<double> values;
  for (const auto& [batch, rows] : parts) {
    values.insert(values.end(), batch->old_values.begin() + static_cast<std::ptrdiff_t>(rows.begin),
                  batch->old_values.begin() + static_cast<std::ptrdiff_t>(rows.end));
  }
  std::vector<double> advantages(values.size());
  std::vector<double> returns(values.size());
  gae(token_rewards(trajectory), values, ppo.gamma, ppo.lambda, advantages, returns);
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

void exclude_non_finite(MicroBatch& batch) {
  for (std::size_t r = 0; r < batch.num_rows(); ++r) {
    if (!(std::isfinite(batch.old_log_probs[r]) && std::isfinite(batch.old_values[r]) &&
          std::isfinite(batch.advantages[r]) && std::isfinite(batch.returns[r]))) {
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

std::vector<double> to_vector(const at::Tensor& values_R) {
  const at::Tensor contiguous = values_R.detach().to(at::kDouble).contiguous();
  const double* const data = contiguous.const_data_ptr<double>();
  return {data, data + contiguous.numel()};
}

Expected<void> LearnerImpl::look(std::vector<MiniBatch>& mini_batches) {
  const std::vector<MicroBatch*> batches = all_micro_batches(mini_batches);
  return threads_.run(static_cast<std::int64_t>(batches.size()), [&](std::int64_t index) -> Expected<void> {
    const c10::NoGradGuard no_grad;
    MicroBatch& batch = *batches[static_cast<std::size_t>(index)];
    const std::vector<std::uint8_t> every_row(batch.num_rows(), 1);
    HeadRows rows;
    rows.rows_RD = student_rows(models_.student, batch.tensors);
    rows.head_VD = models_.student.head_weight().detach();
    rows.token_ids = batch.token_ids;
    rows.is_included = every_row;
    batch.old_log_probs = head_log_probs(losses_, rows).log_probs;
    if (models_.critic) {
      batch.old_values = to_vector(models_.critic->values(batch.tensors, rows.rows_RD));
    }
    return {};
  });
}

Expected<void> LearnerImpl::credit(const StepBatch& step, std::vector<MiniBatch>& mini_batches, StepMetrics& metrics) {
  std::map<std::size_t, RowsOfTrajectory> by_trajectory;
  for (MicroBatch* const batch : all_micro_batches(mini_batches)) {
    metrics.add_rollout_gap(*batch);
    for (const InvocationRows& rows : batch->invocations) {
      by_trajectory[rows.trajectory].emplace_back(batch, rows);
    }
  }
  for (const auto& [trajectory, rows] : by_trajectory) {
    if (has_ppo()) {
      credit_trajectory(step.trajectories[trajectory], rows, setup_.ppo);
    }
  }
  std::vector<double> advantages;
  std::vector<std::uint8_t> is_included;
  for (MiniBatch& mini_batch : mini_batches) {
    for (MicroBatch& batch : mini_batch.micro_batches) {
      weigh_rows(step, mini_batch, setup_.ppo.loss_mean == "sequence", batch);
      exclude_non_finite(batch);
      advantages.insert(advantages.end(), batch.advantages.begin(), batch.advantages.end());
      is_included.insert(is_included.end(), batch.is_included.begin(), batch.is_included.end());
    }
  }
  metrics.add("excluded_rows", static_cast<double>(std::count(is_included.begin(), is_included.end(), 0)));
  if (!has_ppo()) {
    return {};
  }
  if (setup_.ppo.whiten_advantages) {
    MEMOPD_RETURN_IF_ERROR(whiten(advantages, is_included, *collective_));
  }
  auto next = advantages.begin();
  for (MicroBatch* const batch : all_micro_batches(mini_batches)) {
    std::copy_n(next, batch->num_rows(), batch->advantages.begin());
    next += static_cast<std::ptrdiff_t>(batch->num_rows());
    metrics.add_returns(*batch);
  }
  return {};
}

}  // namespace memopd

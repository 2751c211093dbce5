// The last phase of a step: gradients of every micro-batch, summed in order, then one update per mini-batch.
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "policies/training/learner_impl.hpp"
#include "policies/training/policy_gradient.hpp"
#include "policies/training/schedule.hpp"

namespace memopd {

Expected<void> LearnerImpl::update_all(const std::vector<MiniBatch>& mini_batches, StepReport& report,
                                       StepMetrics& metrics, UpdateTotals& totals) {
  for (std::int32_t epoch = 0; epoch < setup_.learner.num_epochs; ++epoch) {
    for (const MiniBatch& mini_batch : mini_batches) {
      Expected<Update> update = update_once(mini_batch, metrics, epoch == 0, totals);
      if (!update) {
        return unexpected(update.error());
      }
      count_update(*update, report, totals);
    }
  }
  return {};
}

Expected<LearnerImpl::Update> LearnerImpl::update_once(const MiniBatch& mini_batch, StepMetrics& metrics,
                                                       bool is_first_epoch, UpdateTotals& totals) {
  at::Tensor gradient = policy_optimizer_.make_gradient();
  at::Tensor critic_gradient = critic_optimizer_ ? critic_optimizer_->make_gradient() : at::Tensor();
  const std::vector<MicroBatch>& batches = mini_batch.micro_batches;
  const double weight = 1.0 / static_cast<double>(mini_batch.num_response_tokens);
  MEMOPD_RETURN_IF_ERROR(compute_in_order(
      threads_, batches.size(), [&](std::size_t i) { return gradients_of(batches[i], weight); },
      [&](std::size_t i, MicroBatchGradients&& result) {
        policy_optimizer_.accumulate(gradient, result.policy);
        metrics.add_losses(batches[i], result.values, losses_, weight, is_first_epoch, totals.num_mini_batches == 0);
        if (critic_optimizer_) {
          critic_optimizer_->accumulate(critic_gradient, result.critic);
          metrics.add_value_loss(result.value_loss);
        }
      }));
  const auto begin = std::chrono::steady_clock::now();
  Expected<Update> update = apply(gradient, critic_gradient);
  totals.optimizer_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return update;
}

LearnerImpl::MicroBatchGradients LearnerImpl::gradients_of(const MicroBatch& batch, double weight) const {
  HeadRows rows;
  rows.token_ids = batch.token_ids;
  rows.is_included = batch.is_included;
  rows.policy_weights = batch.policy_weights;
  rows.opd_weight = weight;
  rows.old_log_probs = batch.old_log_probs;
  rows.advantages = batch.advantages;
  rows.teacher_rows_RE = batch.teacher_rows_RE;
  rows.teacher_head_VE = models_.teacher_head_VE;
  PolicyGradients policy = policy_gradients(models_.student, batch.tensors, losses_, std::move(rows));
  MicroBatchGradients gradients{.values = std::move(policy.values), .policy = std::move(policy.gradients)};
  if (models_.critic) {
    critic_gradients(batch, policy.rows_RD, weight, gradients);
  }
  return gradients;
}

void LearnerImpl::critic_gradients(const MicroBatch& batch, const at::Tensor& rows_RD, double weight,
                                   MicroBatchGradients& gradients) const {
  const c10::AutoGradMode with_grad(true);
  const at::Tensor values_R = models_.critic->values(batch.tensors, rows_RD);
  const std::vector<double> values = to_vector(values_R);
  std::vector<double> slopes(values.size(), 0.0);
  for (std::size_t r = 0; r < values.size(); ++r) {
    if (batch.is_included[r] != 0) {
      const ValueTerm term = value_term(values[r], batch.old_values[r], batch.returns[r], setup_.critic.value_clip);
      gradients.value_loss += weight * term.loss;
      slopes[r] = weight * term.d_value;
    }
  }
  const at::Tensor slopes_R =
      at::from_blob(slopes.data(), {static_cast<std::int64_t>(slopes.size())}, at::kDouble).to(values_R.scalar_type());
  gradients.critic = torch::autograd::grad({values_R}, critic_optimizer_->parameters(), {slopes_R.view_as(values_R)},
                                           /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
}

Expected<void> LearnerImpl::reduce(at::Tensor& flat_gradient) {
  const auto size = static_cast<std::size_t>(flat_gradient.numel());
  if (flat_gradient.scalar_type() == at::kDouble) {
    return collective_->all_reduce_sum(std::span<double>(flat_gradient.data_ptr<double>(), size));
  }
  return collective_->all_reduce_sum(std::span<float>(flat_gradient.data_ptr<float>(), size));
}

Expected<LearnerImpl::Update> LearnerImpl::apply(at::Tensor& gradient, at::Tensor& critic_gradient) {
  MEMOPD_RETURN_IF_ERROR(reduce(gradient));
  Update update{.grad_norm = gradient_norm(gradient),
                .learning_rate = learning_rate(setup_.optimizer, schedule_step_, setup_.num_optimizer_steps)};
  if (critic_optimizer_) {
    MEMOPD_RETURN_IF_ERROR(reduce(critic_gradient));
    update.critic_grad_norm = gradient_norm(critic_gradient);
  }
  ++schedule_step_;
  update.is_skipped = !(std::isfinite(update.grad_norm) && std::isfinite(update.critic_grad_norm));
  if (update.is_skipped) {
    return update;
  }
  const double max_norm = setup_.optimizer.clip_grad_norm;
  policy_optimizer_.step(gradient, update.learning_rate, clip_factor(update.grad_norm, max_norm));
  if (critic_optimizer_) {
    critic_optimizer_->step(critic_gradient, setup_.critic.lr, clip_factor(update.critic_grad_norm, max_norm));
  }
  return update;
}

void LearnerImpl::count_update(const Update& update, StepReport& report, UpdateTotals& totals) {
  totals.num_mini_batches += 1;
  if (update.is_skipped) {
    report.skipped_updates += 1;
    skipped_in_a_row_ += 1;
    report.max_skipped_in_a_row = std::max(report.max_skipped_in_a_row, skipped_in_a_row_);
    return;
  }
  skipped_in_a_row_ = 0;
  report.num_optimizer_steps += 1;
  totals.grad_norm += update.grad_norm;
  totals.critic_grad_norm += update.critic_grad_norm;
  totals.learning_rate = update.learning_rate;
}

}  // namespace memopd

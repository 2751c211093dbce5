#include "policies/training/step_metrics.hpp"

#include <algorithm>
#include <cmath>

#include "policies/training/step_plan.hpp"

namespace memopd {

std::map<std::string, double> trajectory_metrics(const StepBatch& batch, std::span<const std::size_t> trained) {
  double num_responses = 0;
  double num_truncated = 0;
  double num_tokens = 0;
  double num_repeats = 0;
  std::int64_t oldest = batch.policy_version;
  for (const std::size_t place : trained) {
    oldest = std::min(oldest, oldest_version(batch.trajectories[place]));
    for (const Invocation& invocation : batch.trajectories[place].invocations) {
      const std::vector<std::int32_t>& ids = invocation.response_token_ids;
      num_responses += 1;
      num_truncated += invocation.finish_reason == FinishReason::length ? 1 : 0;
      num_tokens += static_cast<double>(ids.size());
      for (std::size_t t = 2; t < ids.size(); ++t) {
        num_repeats += ids[t] == ids[t - 1] && ids[t] == ids[t - 2] ? 1 : 0;
      }
    }
  }
  if (num_tokens == 0) {
    return {};
  }
  return {{"train/max_lag", static_cast<double>(batch.policy_version - oldest)},
          {"train/truncated_frac", num_truncated / num_responses},
          {"train/repeat_frac", num_repeats / num_tokens}};
}

StepMetrics::StepMetrics(const StepParts& parts, const StepBatch& batch) : parts_(parts) {
  std::size_t num_calls = 1;
  for (const Trajectory& trajectory : batch.trajectories) {
    num_calls = std::max(num_calls, trajectory.invocations.size());
  }
  call_divergence_.assign(num_calls, 0);
  call_rows_.assign(num_calls, 0);
  for (const char* const sum : {"loss",
                                "ppo_loss",
                                "value_loss",
                                "rows",
                                "entropy",
                                "divergence",
                                "clipped",
                                "approx_kl",
                                "gap",
                                "gap_rows",
                                "first_ratio_error",
                                "returns",
                                "returns_squared",
                                "errors",
                                "errors_squared",
                                "return_rows",
                                "invalid_rows",
                                "excluded_rows",
                                "packed_tokens",
                                "response_tokens",
                                "teacher_not_finite",
                                "digests",
                                "digest_mismatches",
                                "single_groups",
                                "reference_kl",
                                "reference_rows",
                                "rollout_weight",
                                "rollout_weight_rows"}) {
    sums_[sum] = 0;
  }
}

void StepMetrics::add_rollout_gap(const MicroBatch& batch) {
  for (std::size_t r = 0; r < batch.num_rows(); ++r) {
    if (std::isfinite(batch.old_log_probs[r])) {
      sums_["gap"] += std::abs(batch.rollout_log_probs[r] - batch.old_log_probs[r]);
      sums_["gap_rows"] += 1;
    }
  }
  sums_["packed_tokens"] += static_cast<double>(batch.tensors.num_tokens());
  sums_["response_tokens"] += static_cast<double>(batch.num_rows());
  sums_["invalid_rows"] += static_cast<double>(batch.num_invalid_teacher_rows);
}

void StepMetrics::add_reference(const MicroBatch& batch) {
  for (std::size_t r = 0; r < batch.num_rows(); ++r) {
    const double gap = batch.old_log_probs[r] - batch.reference_log_probs[r];
    if (std::isfinite(gap)) {
      sums_["reference_kl"] += gap;
      sums_["reference_rows"] += 1;
    }
  }
}

void StepMetrics::add_returns(const MicroBatch& batch) {
  for (std::size_t r = 0; r < batch.num_rows(); ++r) {
    if (batch.is_included[r] == 0) {
      continue;
    }
    const double error = batch.returns[r] - batch.old_values[r];
    sums_["returns"] += batch.returns[r];
    sums_["returns_squared"] += batch.returns[r] * batch.returns[r];
    sums_["errors"] += error;
    sums_["errors_squared"] += error * error;
    sums_["return_rows"] += 1;
  }
}

void StepMetrics::add_losses(const MicroBatch& batch, const HeadRowValues& values, const HeadLossOptions& options,
                             double opd_weight, bool is_first_epoch, bool is_first_update) {
  for (const InvocationRows& invocation : batch.invocations) {
    const auto call = std::min(static_cast<std::size_t>(invocation.invocation_index), call_rows_.size() - 1);
    for (std::size_t r = invocation.begin; r < invocation.end; ++r) {
      if (batch.is_included[r] == 0 || values.is_teacher_finite[r] == 0) {
        sums_["teacher_not_finite"] += values.is_teacher_finite[r] == 0 ? 1 : 0;
        continue;
      }
      const double weight = batch.policy_weights[r];
      double loss = opd_weight * options.opd_coef * values.divergences[r];
      if (parts_.has_ppo) {
        const PpoTerm& term = values.ppo[r];
        loss += weight * (options.ppo.coef * term.loss - options.ppo.entropy_coef * values.entropies[r]);
        sums_["ppo_loss"] += weight * term.loss;
        sums_["clipped"] += term.is_clipped ? 1 : 0;
        sums_["approx_kl"] += term.ratio - 1 - std::log(term.ratio);
        if (is_first_update) {
          max_ratio_error_ = std::max(max_ratio_error_, std::abs(term.ratio - 1));
        }
      }
      sums_["loss"] += loss;
      sums_["rows"] += 1;
      sums_["entropy"] += values.entropies[r];
      sums_["divergence"] += values.divergences[r];
      if (is_first_epoch) {
        call_divergence_[call] += values.divergences[r];
        call_rows_[call] += 1;
      }
    }
  }
}

void StepMetrics::add_value_loss(double weighted_sum) { sums_["value_loss"] += weighted_sum; }

Expected<void> StepMetrics::reduce(Collective& collective) {
  std::vector<double> flat;
  for (const auto& [name, value] : sums_) {
    flat.push_back(value);
  }
  flat.insert(flat.end(), call_divergence_.begin(), call_divergence_.end());
  flat.insert(flat.end(), call_rows_.begin(), call_rows_.end());
  MEMOPD_RETURN_IF_ERROR(collective.all_reduce_sum(std::span<double>(flat)));
  auto next = flat.begin();
  for (auto& [name, value] : sums_) {
    value = *next++;
  }
  std::copy_n(next, call_divergence_.size(), call_divergence_.begin());
  std::copy_n(next + static_cast<std::ptrdiff_t>(call_divergence_.size()), call_rows_.size(), call_rows_.begin());
  return {};
}

void StepMetrics::add_policy_metrics(double num_mini_batches, std::map<std::string, double>& metrics) const {
  if (parts_.has_ppo) {
    metrics["ppo/loss"] = at("ppo_loss") / num_mini_batches;
    metrics["ppo/clip_frac"] = at("clipped") / at("rows");
    metrics["ppo/max_ratio_error"] = max_ratio_error_;
    metrics["ppo/approx_kl"] = at("approx_kl") / at("rows");
  }
  if (parts_.has_groups) {
    metrics["ppo/single_groups"] = at("single_groups");
  }
  if (parts_.has_reference && at("reference_rows") > 0) {
    metrics["ppo/reference_kl"] = at("reference_kl") / at("reference_rows");
  }
  if (parts_.is_decoupled && at("rollout_weight_rows") > 0) {
    metrics["ppo/rollout_weight"] = at("rollout_weight") / at("rollout_weight_rows");
  }
  if (parts_.has_critic) {
    metrics["critic/value_loss"] = at("value_loss") / num_mini_batches;
    const double n = std::max(at("return_rows"), 1.0);
    const double variance = at("returns_squared") / n - (at("returns") / n) * (at("returns") / n);
    const double unexplained = at("errors_squared") / n - (at("errors") / n) * (at("errors") / n);
    metrics["critic/explained_variance"] = variance > 1e-12 ? 1 - unexplained / variance : 0;
    metrics["critic/return_mean"] = at("returns") / n;
  }
}

std::map<std::string, double> StepMetrics::finish(std::int64_t num_mini_batches) const {
  std::map<std::string, double> metrics{{"train/response_tokens", at("response_tokens")},
                                        {"train/packed_tokens", at("packed_tokens")},
                                        {"train/excluded_rows", at("excluded_rows")},
                                        {"align/checked", at("digests")},
                                        {"align/mismatch", at("digest_mismatches")}};
  if (parts_.has_opd) {
    metrics["opd/invalid_teacher_rows"] = at("invalid_rows") + at("teacher_not_finite");
  }
  if (at("gap_rows") > 0) {
    metrics["train/rollout_gap"] = at("gap") / at("gap_rows");
  }
  if (num_mini_batches == 0 || at("rows") == 0) {
    return metrics;
  }
  const auto mini_batches = static_cast<double>(num_mini_batches);
  metrics["train/loss"] = at("loss") / mini_batches;
  metrics["train/entropy"] = at("entropy") / at("rows");
  add_policy_metrics(mini_batches, metrics);
  if (parts_.has_opd) {
    metrics["opd/divergence"] = at("divergence") / at("rows");
    for (std::size_t call = 0; call < call_rows_.size(); ++call) {
      if (call_rows_[call] > 0) {
        metrics["opd/kl_call_" + std::to_string(call)] = call_divergence_[call] / call_rows_[call];
      }
    }
  }
  return metrics;
}

}  // namespace memopd

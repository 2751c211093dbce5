#include "policies/training/sft.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include <ATen/ops/clone.h>
#include <c10/core/GradMode.h>

#include "policies/model/checkpoint.hpp"
#include "policies/model/initialization.hpp"
#include "policies/model/weights.hpp"
#include "policies/training/adamw.hpp"
#include "policies/training/copy_rows.hpp"
#include "policies/training/micro_batch.hpp"
#include "policies/training/policy_gradient.hpp"
#include "policies/training/schedule.hpp"
#include "policies/training/step_plan.hpp"
#include "policies/training/worker_threads.hpp"
#include "runtime/alignpack/align_pack.hpp"
#include "runtime/alignpack/history_pack.hpp"
#include "runtime/base/random.hpp"

namespace memopd {
namespace {

constexpr std::int32_t kCopyWarmupSteps = 30;  ///< warm-up of the learning rate of copying rows
constexpr double kCopyMinLrFrac = 0.15;

std::vector<at::Tensor> parameters_of(const Transformer& model) {
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& parameter : model.parameters()) {
    tensors.push_back(parameter.tensor);
  }
  return tensors;
}

Expected<Transformer> make_model(const SftSetup& setup) {
  const at::ScalarType dtype = setup.dtype == DType::float64 ? at::kDouble : at::kFloat;
  if (!setup.sft.init.empty()) {
    return load_transformer(setup.sft.init, dtype);
  }
  Expected<ModelConfig> config = model_config_from_shape(setup.sft.model, setup.vocab_size, setup.eos_token_ids);
  if (!config) {
    return unexpected(config.error());
  }
  return random_transformer(*config, init_options(setup.sft.model, setup.seed), dtype);
}

/// What stays together in a pack: calls of one trajectory, which share prefixes or make up one history.
struct Run {
  std::vector<const Invocation*> invocations;  ///< with response tokens
  const Trajectory* trajectory = nullptr;      ///< a history
  std::int64_t num_tokens = 0;
};

std::vector<Run> runs_of(std::span<const Invocation* const> invocations) {
  std::vector<Run> runs;
  for (const Invocation* const invocation : invocations) {
    if (runs.empty() || runs.back().invocations.back()->trajectory_id != invocation->trajectory_id) {
      runs.emplace_back();
    }
    runs.back().invocations.push_back(invocation);
    runs.back().num_tokens +=
        static_cast<std::int64_t>(invocation->prompt_token_ids.size() + invocation->response_token_ids.size());
  }
  return runs;
}

std::vector<Run> runs_of(std::span<const Trajectory* const> trajectories) {
  std::vector<Run> runs;
  for (const Trajectory* const trajectory : trajectories) {
    Run run{.invocations = {}, .trajectory = trajectory, .num_tokens = num_history_tokens(*trajectory)};
    for (const Invocation& invocation : trajectory->invocations) {
      if (!invocation.response_token_ids.empty()) {
        run.invocations.push_back(&invocation);
      }
    }
    if (!run.invocations.empty()) {
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

class SftTrainerImpl final : public SftTrainer {
 public:
  SftTrainerImpl(SftSetup setup, Transformer model)
      : setup_(std::move(setup)),
        model_(std::move(model)),
        optimizer_(parameters_of(model_), adamw_options(setup_.optimizer.weight_decay)),
        threads_(setup_.sft.num_threads) {
    losses_.scored_vocab = setup_.scored_vocab;
    losses_.policy_loss = PolicyLoss::cross_entropy;
    if (setup_.sft.copy_warmup_steps > 0) {
      copy_optimizer_.emplace(parameters_of(model_), adamw_options(0.0));
    }
  }

  Expected<SftReport> copy_warmup_step() override;
  Expected<SftReport> step(std::span<const Invocation* const> batch) override;
  Expected<SftReport> step_flat(std::span<const Trajectory* const> batch) override;
  [[nodiscard]] std::int64_t num_steps() const override { return num_steps_; }
  [[nodiscard]] WeightSet weights() const override { return to_weight_set(saved_model(), 0, num_steps_); }
  Expected<void> save(const std::filesystem::path& folder) const override;

 private:
  [[nodiscard]] AdamWOptions adamw_options(double weight_decay) const {
    return {setup_.optimizer.beta1, setup_.optimizer.beta2, setup_.optimizer.eps, weight_decay};
  }
  /// One update on the included rows of `batches`; none if there is no such row.
  Expected<SftReport> train(std::vector<MicroBatch> batches, AdamW& optimizer, double lr);
  /// The next optimizer step of the schedule on `runs`.
  Expected<SftReport> train_next(const std::vector<Run>& runs);
  /// InvocationRows.trajectory is the number of the run.
  Expected<std::vector<MicroBatch>> pack(const std::vector<Run>& runs) const;
  Expected<void> check(const Invocation& invocation) const {
    return check_invocation(invocation, {.scored_vocab = setup_.scored_vocab,
                                         .vocab_size = model_.config().vocab_size,
                                         .max_tokens = setup_.pack.max_tokens});
  }
  void start_average();
  Expected<void> average_weights();
  [[nodiscard]] Transformer saved_model() const;

  SftSetup setup_;
  Transformer model_;
  AdamW optimizer_;
  std::optional<AdamW> copy_optimizer_;  ///< until the last copying step
  WorkerThreads threads_;
  HeadLossOptions losses_;
  std::vector<at::Tensor> averages_;  ///< one per parameter, once step() was called with EMA on
  std::int64_t num_steps_ = 0;
  std::int32_t num_copy_steps_ = 0;
};

Expected<void> SftTrainerImpl::save(const std::filesystem::path& folder) const {
  // With another tokenizer than that of the model it started from, that model's files would contradict it.
  if (!setup_.sft.init.empty() && setup_.sft.tokenizer == setup_.sft.init) {
    MEMOPD_RETURN_IF_ERROR(copy_companion_files(setup_.sft.init, folder));
  }
  return save_transformer(folder, saved_model());
}

Expected<std::vector<MicroBatch>> SftTrainerImpl::pack(const std::vector<Run>& runs) const {
  std::vector<std::int64_t> num_tokens;
  for (const Run& run : runs) {
    num_tokens.push_back(run.num_tokens);
  }
  const AlignPackOptions options{setup_.pack.max_tokens, setup_.pack.share_prefixes, setup_.pack.min_shared_tokens};
  std::vector<MicroBatch> batches;
  for (const std::vector<std::size_t>& group : split_by_tokens(num_tokens, setup_.sft.num_threads)) {
    std::vector<ScoredInvocation> scored;
    std::vector<const Invocation*> invocations;
    std::vector<const Trajectory*> histories;
    for (const std::size_t run : group) {
      for (const Invocation* const invocation : runs[run].invocations) {
        scored.push_back({.invocation = invocation, .trajectory = run});
        invocations.push_back(invocation);
      }
      histories.push_back(runs[run].trajectory);
    }
    const Expected<std::vector<PackedBatch>> packs =
        histories.front() != nullptr ? pack_histories(histories, HistoryState::persistent_history, options)
                                     : align_pack(invocations, options);
    if (!packs) {
      return unexpected(packs.error());
    }
    Expected<std::vector<MicroBatch>> packed = make_micro_batches(scored, *packs, 0, model_.dtype());
    if (!packed) {
      return unexpected(packed.error());
    }
    std::move(packed->begin(), packed->end(), std::back_inserter(batches));
  }
  return batches;
}

Expected<SftReport> SftTrainerImpl::train(std::vector<MicroBatch> batches, AdamW& optimizer, double lr) {
  SftReport report{.learning_rate = lr};
  for (const MicroBatch& batch : batches) {
    report.num_tokens += std::count(batch.is_included.begin(), batch.is_included.end(), std::uint8_t{1});
    report.num_packed_tokens += batch.tensors.num_tokens();
  }
  if (report.num_tokens == 0) {
    report.is_skipped = true;
    return report;
  }
  const double weight = 1.0 / static_cast<double>(report.num_tokens);
  for (MicroBatch& batch : batches) {
    std::fill(batch.policy_weights.begin(), batch.policy_weights.end(), weight);
  }
  at::Tensor gradient = optimizer.make_gradient();
  MEMOPD_RETURN_IF_ERROR(compute_in_order(
      threads_, batches.size(),
      [&](std::size_t i) {
        HeadRows rows;
        rows.token_ids = batches[i].token_ids;
        rows.is_included = batches[i].is_included;
        rows.policy_weights = batches[i].policy_weights;
        return policy_gradients(model_, batches[i].tensors, losses_, std::move(rows));
      },
      [&](std::size_t i, PolicyGradients&& result) {
        optimizer.accumulate(gradient, result.gradients);
        for (std::size_t r = 0; r < batches[i].num_rows(); ++r) {
          report.loss -= batches[i].is_included[r] != 0 ? weight * result.values.log_probs[r] : 0;
        }
      }));
  report.grad_norm = gradient_norm(gradient);
  report.is_skipped = !std::isfinite(report.grad_norm);
  if (!report.is_skipped) {
    optimizer.step(gradient, lr, clip_factor(report.grad_norm, setup_.optimizer.clip_grad_norm));
  }
  return report;
}

Expected<SftReport> SftTrainerImpl::copy_warmup_step() try {
  if (!copy_optimizer_ || num_steps_ > 0) {
    return unexpected(ErrorCode::refused, "copying rows come before the first step, " +
                                              std::to_string(setup_.sft.copy_warmup_steps) + " steps of them");
  }
  const std::vector<CopyRow> rows =
      copy_rows(setup_.scored_vocab, setup_.sft.copy_warmup_rows, setup_.seed, num_copy_steps_);
  std::vector<const Invocation*> invocations;
  for (const CopyRow& row : rows) {
    invocations.push_back(&row.invocation);
  }
  Expected<std::vector<MicroBatch>> batches = pack(runs_of(invocations));
  if (!batches) {
    return unexpected(batches.error());
  }
  for (MicroBatch& batch : *batches) {
    for (const InvocationRows& packed : batch.invocations) {
      const std::vector<std::uint8_t>& is_predicted = rows[packed.trajectory].is_predicted;
      std::copy(is_predicted.begin(), is_predicted.end(),
                batch.is_included.begin() + static_cast<std::ptrdiff_t>(packed.begin));
    }
  }
  const double progress = static_cast<double>(num_copy_steps_) / setup_.sft.copy_warmup_steps;
  const double lr = setup_.sft.copy_warmup_lr * std::min(1.0, (num_copy_steps_ + 1.0) / kCopyWarmupSteps) *
                    std::max(kCopyMinLrFrac, 1.0 - progress);
  Expected<SftReport> report = train(std::move(*batches), *copy_optimizer_, lr);
  if (report && ++num_copy_steps_ == setup_.sft.copy_warmup_steps) {
    copy_optimizer_.reset();
  }
  return report;
} catch (const std::exception& exception) {
  return unexpected(ErrorCode::internal, std::string("copying rows: ") + exception.what());
}

Expected<SftReport> SftTrainerImpl::step(std::span<const Invocation* const> batch) try {
  std::vector<const Invocation*> with_response;
  for (const Invocation* const invocation : batch) {
    MEMOPD_RETURN_IF_ERROR(check(*invocation));
    if (!invocation->response_token_ids.empty()) {
      with_response.push_back(invocation);
    }
  }
  return train_next(runs_of(with_response));
} catch (const std::exception& exception) {
  return unexpected(ErrorCode::internal, std::string("sft: ") + exception.what());
}

Expected<SftReport> SftTrainerImpl::step_flat(std::span<const Trajectory* const> batch) try {
  for (const Trajectory* const trajectory : batch) {
    for (const Invocation& invocation : trajectory->invocations) {
      MEMOPD_RETURN_IF_ERROR(check(invocation));
    }
  }
  return train_next(runs_of(batch));
} catch (const std::exception& exception) {
  return unexpected(ErrorCode::internal, std::string("sft: ") + exception.what());
}

Expected<SftReport> SftTrainerImpl::train_next(const std::vector<Run>& runs) {
  Expected<std::vector<MicroBatch>> batches = pack(runs);
  if (!batches) {
    return unexpected(batches.error());
  }
  start_average();
  Expected<SftReport> report =
      train(std::move(*batches), optimizer_, learning_rate(setup_.optimizer, num_steps_, setup_.sft.num_steps));
  if (report && !report->is_skipped) {
    MEMOPD_RETURN_IF_ERROR(average_weights());
    ++num_steps_;
  }
  return report;
}

void SftTrainerImpl::start_average() {
  if (setup_.sft.ema > 0 && averages_.empty()) {
    for (const at::Tensor& parameter : optimizer_.parameters()) {
      averages_.push_back(parameter.detach().clone());
    }
  }
}

Expected<void> SftTrainerImpl::average_weights() {
  // A young average forgets faster, so that it does not remember the first weights for 1/(1 - ema) steps.
  const auto made = static_cast<double>(num_steps_ + 1);
  const double keep = std::min(setup_.sft.ema, (made + 1) / (made + 10));
  return threads_.run(static_cast<std::int64_t>(averages_.size()), [&](std::int64_t index) -> Expected<void> {
    const c10::NoGradGuard no_grad;
    const auto i = static_cast<std::size_t>(index);
    averages_[i].lerp_(optimizer_.parameters()[i].detach(), 1 - keep);
    return {};
  });
}

Transformer SftTrainerImpl::saved_model() const {
  Transformer copy = model_.clone();
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    std::memcpy(copy.parameters()[i].tensor.data_ptr(), averages_[i].const_data_ptr(), averages_[i].nbytes());
  }
  return copy;
}

}  // namespace

bool is_flat_step(const SftConfig& sft, std::uint64_t seed, std::int64_t step) {
  SplitMix random(chain_seed(seed, {hash_name("flat_steps"), static_cast<std::uint64_t>(step)}));
  return random.uniform() < sft.flat_frac;
}

Expected<std::unique_ptr<SftTrainer>> SftTrainer::create(const SftSetup& setup) {
  Expected<Transformer> model = make_model(setup);
  if (!model) {
    return unexpected(model.error());
  }
  const std::int32_t vocab_size = model->config().vocab_size;
  if (setup.scored_vocab < 0 || setup.scored_vocab > vocab_size) {
    return unexpected(ErrorCode::invalid_argument, "scored_vocab " + std::to_string(setup.scored_vocab) +
                                                       " is outside [0, " + std::to_string(vocab_size) + "]");
  }
  if (setup.sft.num_threads < 1 || setup.sft.copy_warmup_rows < 1) {
    return unexpected(ErrorCode::invalid_argument, "sft.num_threads and sft.copy_warmup_rows must be at least 1");
  }
  SftSetup resolved = setup;
  resolved.scored_vocab = setup.scored_vocab > 0 ? setup.scored_vocab : vocab_size;
  model->set_requires_grad(true);
  return std::unique_ptr<SftTrainer>(std::make_unique<SftTrainerImpl>(std::move(resolved), std::move(*model)));
}

}  // namespace memopd

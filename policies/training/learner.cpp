#include "policies/training/learner.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "policies/model/checkpoint.hpp"
#include "policies/model/weights.hpp"
#include "policies/training/learner_impl.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/random.hpp"

namespace memopd {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::vector<at::Tensor> tensors_of(const std::vector<NamedTensor>& parameters) {
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& parameter : parameters) {
    tensors.push_back(parameter.tensor);
  }
  return tensors;
}

AdamWOptions adamw_options(const OptimizerConfig& optimizer, double weight_decay) {
  return {.beta1 = optimizer.beta1, .beta2 = optimizer.beta2, .eps = optimizer.eps, .weight_decay = weight_decay};
}

Expected<void> check_setup(const LearnerSetup& setup, const Collective& collective) {
  const auto refuse = [](const std::string& message) -> Expected<void> {
    return unexpected(ErrorCode::invalid_argument, message);
  };
  if (setup.ppo.coef <= 0 && setup.opd.coef <= 0) {
    return refuse("ppo.coef and opd.coef are both 0: nothing to train on");
  }
  if (setup.opd.coef > 0 && setup.teacher_folder.empty()) {
    return refuse("opd.coef is " + std::to_string(setup.opd.coef) + " without a teacher");
  }
  if (setup.sampling_temperature <= 0 || setup.opd.temperature <= 0) {
    return refuse("sampling.temperature and opd.temperature must be above 0 in training");
  }
  if (setup.ppo.loss_mean != "token" && setup.ppo.loss_mean != "sequence") {
    return refuse("ppo.loss_mean \"" + setup.ppo.loss_mean + "\" is none of token, sequence");
  }
  if (setup.learner.state != "aligned" && setup.learner.state != "persistent_history") {
    return refuse("learner.state \"" + setup.learner.state + "\" is none of aligned, persistent_history");
  }
  if (setup.max_policy_lag < 0 || !(setup.ppo.max_rollout_weight >= 1) || !(setup.ppo.reference_kl_coef >= 0)) {
    return refuse("max_policy_lag and ppo.reference_kl_coef must be at least 0, ppo.max_rollout_weight at least 1");
  }
  if (setup.learner.mini_batch_trajectories < 1 || setup.learner.num_epochs < 1 || setup.learner.num_threads < 1 ||
      setup.opd.chunk_rows < 1) {
    return refuse("learner.mini_batch_trajectories, num_epochs, num_threads and opd.chunk_rows must be at least 1");
  }
  if (setup.dtype != DType::float32 && setup.dtype != DType::float64) {
    return refuse("a learner computes in float32 or float64, not " + std::string(to_string(setup.dtype)));
  }
  if (collective.world_size() != setup.learner.num_ranks) {
    return refuse("learner.num_ranks is " + std::to_string(setup.learner.num_ranks) + ", the group has " +
                  std::to_string(collective.world_size()) + " ranks");
  }
  return {};
}

Expected<Transformer> load_reference(const LearnerSetup& setup, std::int32_t scored_vocab, at::ScalarType dtype) {
  const std::filesystem::path& folder = setup.reference_folder.empty() ? setup.student_folder : setup.reference_folder;
  Expected<Transformer> reference = load_transformer(folder, dtype);
  if (reference && reference->config().vocab_size < scored_vocab) {
    return unexpected(ErrorCode::invalid_argument, "reference " + folder.string() + " has " +
                                                       std::to_string(reference->config().vocab_size) +
                                                       " ids, scored_vocab is " + std::to_string(scored_vocab));
  }
  return reference;
}

void set_row_exact(LearnerImpl::Models& models, bool is_row_exact) {
  models.student.set_row_exact(is_row_exact);
  if (models.reference) {
    models.reference->set_row_exact(is_row_exact);
  }
  if (models.critic) {
    models.critic->set_row_exact(is_row_exact);
  }
}

Expected<LearnerImpl::Models> load_models(const LearnerSetup& setup) {
  const at::ScalarType dtype = setup.dtype == DType::float64 ? at::kDouble : at::kFloat;
  Expected<Transformer> student = load_transformer(setup.student_folder, dtype);
  if (!student) {
    return unexpected(student.error());
  }
  student->set_requires_grad(true);
  LearnerImpl::Models models{.student = std::move(*student)};
  std::int32_t smallest_vocab = models.student.config().vocab_size;
  if (setup.opd.coef > 0) {
    Expected<at::Tensor> head = load_head(setup.teacher_folder, dtype);
    if (!head) {
      return unexpected(head.error());
    }
    models.teacher_head_VE = *head;
    smallest_vocab = std::min(smallest_vocab, static_cast<std::int32_t>(head->size(0)));
  }
  models.scored_vocab = setup.scored_vocab > 0 ? setup.scored_vocab : smallest_vocab;
  if (models.scored_vocab > smallest_vocab) {
    return unexpected(ErrorCode::invalid_argument, "scored_vocab " + std::to_string(models.scored_vocab) +
                                                       " exceeds the smaller vocabulary " +
                                                       std::to_string(smallest_vocab) + " of student and teacher");
  }
  if (setup.opd.coef > 0) {
    models.teacher_fingerprint = head_fingerprint(models.teacher_head_VE, models.scored_vocab);
  }
  if (setup.ppo.coef > 0 && setup.ppo.reference_kl_coef > 0) {
    Expected<Transformer> reference = load_reference(setup, models.scored_vocab, dtype);
    if (!reference) {
      return unexpected(reference.error());
    }
    models.reference.emplace(std::move(*reference));
  }
  if (setup.ppo.coef > 0 && setup.ppo.estimator == "gae") {
    const bool is_own = setup.critic.trunk == "own";
    CriticOptions options{
        .trunk = setup.critic.trunk,
        .model_folder = setup.critic.model.empty() ? setup.student_folder : std::filesystem::path(setup.critic.model),
        .feature_size = is_own ? 0 : models.student.config().hidden_size,
        .seed = chain_seed(setup.seed, {hash_name("critic")})};
    Expected<Critic> critic = Critic::create(options, dtype);
    if (!critic) {
      return unexpected(critic.error());
    }
    models.critic.emplace(std::move(*critic));
  }
  set_row_exact(models, setup.is_deterministic);
  return models;
}

}  // namespace

std::int64_t planned_optimizer_steps(const LearnerConfig& learner, std::int32_t num_steps, std::int32_t num_samples) {
  const std::int64_t trajectories = std::int64_t{learner.tasks_per_step} * num_samples;
  const std::int64_t mini_batches =
      (trajectories + learner.mini_batch_trajectories - 1) / learner.mini_batch_trajectories;
  return std::max<std::int64_t>(1, mini_batches * learner.num_epochs * num_steps);
}

Expected<std::unique_ptr<Learner>> Learner::create(const LearnerSetup& setup, std::shared_ptr<Collective> collective) {
  MEMOPD_RETURN_IF_ERROR(check_setup(setup, *collective));
  const Expected<Divergence> divergence = parse_divergence(setup.opd.divergence);
  if (!divergence) {
    return unexpected(divergence.error());
  }
  const Expected<Estimator> estimator = parse_estimator(setup.ppo.estimator);
  if (!estimator) {
    return unexpected(estimator.error());
  }
  Expected<LearnerImpl::Models> models = load_models(setup);
  if (!models) {
    return unexpected(models.error());
  }
  HeadLossOptions losses{.scored_vocab = models->scored_vocab,
                         .sampling_temperature = setup.sampling_temperature,
                         .policy_loss = setup.ppo.coef > 0 ? PolicyLoss::ppo : PolicyLoss::none,
                         .ppo = setup.ppo,
                         .opd_coef = setup.opd.coef,
                         .divergence = *divergence,
                         .beta = setup.opd.beta,
                         .opd_temperature = setup.opd.temperature,
                         .chunk_rows = setup.opd.chunk_rows,
                         .is_row_exact = setup.is_deterministic};
  return std::unique_ptr<Learner>(
      std::make_unique<LearnerImpl>(setup, *estimator, std::move(*models), losses, std::move(collective)));
}

LearnerImpl::LearnerImpl(LearnerSetup setup, Estimator estimator, Models models, HeadLossOptions losses,
                         std::shared_ptr<Collective> collective)
    : setup_(std::move(setup)),
      estimator_(estimator),
      losses_(std::move(losses)),
      models_(std::move(models)),
      collective_(std::move(collective)),
      policy_optimizer_(tensors_of(models_.student.parameters()),
                        adamw_options(setup_.optimizer, setup_.optimizer.weight_decay)),
      threads_(setup_.learner.num_threads) {
  if (models_.critic) {
    critic_optimizer_.emplace(tensors_of(models_.critic->parameters()), adamw_options(setup_.optimizer, 0.0));
  }
}

WeightSet LearnerImpl::weights() const { return to_weight_set(models_.student, lineage_, policy_version_); }

SelectionRules LearnerImpl::selection_rules() const {
  return {.needs_scores = has_opd(),
          .head_fingerprint = models_.teacher_fingerprint,
          .scored_vocab = models_.scored_vocab,
          .vocab_size = models_.student.config().vocab_size,
          .max_tokens = setup_.pack.max_tokens,
          .is_flat = is_flat(),
          .max_policy_lag = setup_.max_policy_lag,
          .needs_rollout = is_decoupled()};
}

Expected<StepReport> LearnerImpl::step(const StepBatch& batch, const ScoreLookup& lookup) try {
  if (batch.policy_version != policy_version_) {
    return unexpected(ErrorCode::invalid_argument, "step " + std::to_string(batch.step) +
                                                       " was collected for policy_version " +
                                                       std::to_string(batch.policy_version) + ", the learner is at " +
                                                       std::to_string(policy_version_));
  }
  const auto begin = Clock::now();
  StepMetrics metrics({.has_ppo = has_ppo(),
                       .has_critic = models_.critic.has_value(),
                       .has_groups = has_ppo() && estimator_ != Estimator::gae,
                       .has_reference = models_.reference.has_value(),
                       .has_opd = has_opd(),
                       .is_decoupled = is_decoupled()},
                      batch);
  Expected<Prepared> prepared = prepare(batch, lookup, metrics);
  if (!prepared) {
    return unexpected(prepared.error());
  }
  lineage_ = batch.lineage;
  const double pack_s = seconds_since(begin);

  StepReport report = start_report(batch, *prepared);
  const auto look_begin = Clock::now();
  MEMOPD_RETURN_IF_ERROR(look(prepared->mini_batches));
  MEMOPD_RETURN_IF_ERROR(credit(batch, *prepared, metrics));
  const double look_s = seconds_since(look_begin);

  const auto update_begin = Clock::now();
  UpdateTotals totals;
  MEMOPD_RETURN_IF_ERROR(update_all(prepared->mini_batches, report, metrics, totals));
  policy_version_ += report.num_optimizer_steps > 0 ? 1 : 0;
  report.policy_version = policy_version_;
  const double update_s = seconds_since(update_begin);

  MEMOPD_RETURN_IF_ERROR(finish_report(metrics, totals, report));
  report.metrics.merge(trajectory_metrics(batch, prepared->trained));
  report.metrics["time/learner_pack_s"] = pack_s;
  report.metrics["time/learner_look_s"] = look_s;
  report.metrics["time/learner_update_s"] = update_s;
  report.metrics["time/learner_optimizer_s"] = totals.optimizer_s;
  return report;
} catch (const std::exception& exception) {
  return unexpected(ErrorCode::internal, std::string("learner: ") + exception.what());
}

StepReport LearnerImpl::start_report(const StepBatch& batch, const Prepared& prepared) const {
  StepReport report;
  report.num_trained = static_cast<std::int32_t>(prepared.trained.size());
  report.dropped = prepared.selection.dropped;
  for (std::size_t i = 0; i < prepared.selection.items.size(); ++i) {
    if (prepared.scores.is_lost[i] == 0) {
      continue;
    }
    const Trajectory& trajectory = batch.trajectories[prepared.selection.items[i].trajectory];
    report.dropped.push_back(
        {trajectory.id, trajectory.attempt, std::string(to_string(TrajectoryStatus::teacher_unavailable))});
  }
  std::sort(report.dropped.begin(), report.dropped.end(),
            [](const DroppedTrajectory& a, const DroppedTrajectory& b) { return a.id < b.id; });
  return report;
}

Expected<void> LearnerImpl::finish_report(StepMetrics& metrics, const UpdateTotals& totals, StepReport& report) {
  MEMOPD_RETURN_IF_ERROR(metrics.reduce(*collective_));
  report.metrics = metrics.finish(totals.num_mini_batches);
  report.metrics["train/trajectories"] = report.num_trained;
  for (const DroppedTrajectory& dropped : report.dropped) {
    report.metrics["train/dropped_" + dropped.reason] += 1;
  }
  report.metrics["train/optimizer_steps"] = report.num_optimizer_steps;
  report.metrics["train/skipped_updates"] = report.skipped_updates;
  if (report.num_optimizer_steps > 0) {
    report.metrics["train/grad_norm"] = totals.grad_norm / report.num_optimizer_steps;
    report.metrics["train/lr"] = totals.learning_rate;
    if (models_.critic) {
      report.metrics["critic/grad_norm"] = totals.critic_grad_norm / report.num_optimizer_steps;
    }
  }
  if (report.skipped_updates > 0) {
    log_warning("learner", "updates_skipped",
                {{"skipped", report.skipped_updates}, {"in_a_row", report.max_skipped_in_a_row}});
  }
  return {};
}

}  // namespace memopd

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

Expected<LearnerImpl::Models> load_models(const LearnerSetup& setup) {
  const at::ScalarType dtype = setup.dtype == DType::float64 ? at::kDouble : at::kFloat;
  Expected<Transformer> student = load_transformer(setup.student_folder, dtype);
  if (!student) {
    return unexpected(student.error());
  }
  student->set_requires_grad(true);
  LearnerImpl::Models models{.student = std::move(*student), .critic = {}, .teacher_head_VE = {}};
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
  if (setup.ppo.coef > 0) {
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
                         .chunk_rows = setup.opd.chunk_rows};
  return std::unique_ptr<Learner>(
      std::make_unique<LearnerImpl>(setup, std::move(*models), losses, std::move(collective)));
}

LearnerImpl::LearnerImpl(LearnerSetup setup, Models models, HeadLossOptions losses,
                         std::shared_ptr<Collective> collective)
    : setup_(std::move(setup)),
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
          .max_tokens = setup_.pack.max_tokens};
}

Expected<StepReport> LearnerImpl::step(const StepBatch& batch, const ScoreLookup& lookup) try {
  if (batch.policy_version != policy_version_) {
    return unexpected(ErrorCode::invalid_argument, "step " + std::to_string(batch.step) +
                                                       " was collected for policy_version " +
                                                       std::to_string(batch.policy_version) + ", the learner is at " +
                                                       std::to_string(policy_version_));
  }
  const auto begin = Clock::now();
  Expected<Selection> selection = select_trajectories(batch, selection_rules());
  if (!selection) {
    return unexpected(selection.error());
  }
  const Parts parts =
      cut_mini_batches(selection->items.size(), setup_.learner.mini_batch_trajectories, setup_.seed, batch.step);
  Expected<FetchedScores> scores = fetch_scores(batch, *selection, parts, lookup);
  if (!scores) {
    return unexpected(scores.error());
  }
  Expected<std::vector<MiniBatch>> mini_batches = make_mini_batches(batch, *selection, parts, *scores);
  if (!mini_batches) {
    return unexpected(mini_batches.error());
  }
  lineage_ = batch.lineage;
  const double pack_s = seconds_since(begin);

  StepReport report = start_report(batch, *selection, *scores);
  std::size_t num_calls = 1;
  for (const Trajectory& trajectory : batch.trajectories) {
    num_calls = std::max(num_calls, trajectory.invocations.size());
  }
  StepMetrics metrics(has_ppo(), has_opd(), num_calls);
  const auto look_begin = Clock::now();
  MEMOPD_RETURN_IF_ERROR(look(*mini_batches));
  MEMOPD_RETURN_IF_ERROR(credit(batch, *mini_batches, metrics));
  const double look_s = seconds_since(look_begin);

  const auto update_begin = Clock::now();
  UpdateTotals totals;
  MEMOPD_RETURN_IF_ERROR(update_all(*mini_batches, report, metrics, totals));
  policy_version_ += report.num_optimizer_steps > 0 ? 1 : 0;
  report.policy_version = policy_version_;
  const double update_s = seconds_since(update_begin);

  MEMOPD_RETURN_IF_ERROR(finish_report(metrics, totals, report));
  report.metrics["time/learner_pack_s"] = pack_s;
  report.metrics["time/learner_look_s"] = look_s;
  report.metrics["time/learner_update_s"] = update_s;
  report.metrics["time/learner_optimizer_s"] = totals.optimizer_s;
  return report;
} catch (const std::exception& exception) {
  return unexpected(ErrorCode::internal, std::string("learner: ") + exception.what());
}

StepReport LearnerImpl::start_report(const StepBatch& batch, const Selection& selection,
                                     const FetchedScores& scores) const {
  StepReport report;
  report.dropped = selection.dropped;
  for (std::size_t i = 0; i < selection.items.size(); ++i) {
    if (scores.is_lost[i] == 0) {
      ++report.num_trained;
      continue;
    }
    const Trajectory& trajectory = batch.trajectories[selection.items[i].trajectory];
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
    if (has_ppo()) {
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

#include "actors/learner_actor.hpp"

#include <utility>

#include "actors/role_setup.hpp"

namespace memopd {

MEMOPD_REGISTER_ACTOR("learner", LearnerActor, RoleInit)

LearnerSetup learner_setup(const Config& config, std::int32_t scored_vocab) {
  LearnerSetup setup;
  setup.student_folder = config.student.model;
  setup.teacher_folder = config.teacher.model;
  setup.reference_folder = config.reference.model;
  setup.ppo = config.ppo;
  setup.opd = config.opd;
  setup.optimizer = config.optimizer;
  setup.critic = config.critic;
  setup.learner = config.learner;
  setup.pack = config.pack;
  setup.sampling_temperature = config.sampling.temperature;
  setup.num_optimizer_steps =
      planned_optimizer_steps(config.learner, config.run.num_steps, config.sampling.num_samples);
  setup.seed = config.run.seed;
  setup.max_policy_lag = config.run.max_policy_lag;
  setup.is_deterministic = config.run.is_deterministic;
  setup.scored_vocab = scored_vocab;
  return setup;
}

LearnerActor::LearnerActor(RoleInit init) : init_(std::move(init)) {}

void LearnerActor::setup() {
  on(&LearnerActor::train);
  on(&LearnerActor::save);
  on(&LearnerActor::share);
  on(&LearnerActor::restore);
  if (incarnation() > 1) {
    return;
  }
  if (auto loaded = load(init_.checkpoint, init_.collective); !loaded) {
    fail(loaded.error());
  }
}

Expected<LearnerRestored> LearnerActor::restore(const RestoreLearner& request) {
  if (request.recovery < recovery_) {
    return unexpected(ErrorCode::refused, self().name() + ": recovery " + std::to_string(request.recovery) +
                                              " after recovery " + std::to_string(recovery_));
  }
  if (request.recovery > recovery_ || !learner_) {
    learner_.reset();
    trained_.reset();
    recovery_ = request.recovery;
    MEMOPD_RETURN_IF_ERROR(
        load(request.checkpoint, request.collective == ObjectRef{} ? init_.collective : request.collective));
  }
  return LearnerRestored{learner_->policy_version()};
}

Expected<void> LearnerActor::check_restored() const {
  return learner_
             ? Expected<void>()
             : Expected<void>(unexpected(ErrorCode::target_down, self().name() + " was restarted and knows nothing"));
}

Expected<std::unique_ptr<Learner>> LearnerActor::make_learner(const LearnerSetup& setup,
                                                              std::shared_ptr<Collective> collective) const {
  return Learner::create(setup, std::move(collective));
}

Expected<void> LearnerActor::load(const std::string& checkpoint, const ObjectRef& collective) {
  auto config = load_role_config(init_);
  if (!config) {
    return unexpected(config.error());
  }
  auto tokenizer = load_role_tokenizer(init_);
  if (!tokenizer) {
    return unexpected(tokenizer.error());
  }
  if (has_rank_processes(*config)) {
    place_ = join_ranks_of_processes(cluster(), recovery_, rank(), group_size());
  } else if (collective == ObjectRef{}) {
    place_ = join_rank_group(cluster(), recovery_, rank(), group_size());
  } else {
    auto group = objects().get<CollectiveGroup>(collective);
    if (!group) {
      return unexpected(group.error());
    }
    place_ = {*group, (**group)[static_cast<std::size_t>(rank())]};
  }
  auto learner = make_learner(learner_setup(*config, (*tokenizer)->vocab_size()), place_.collective);
  if (!learner) {
    return unexpected(learner.error());
  }
  learner_ = *std::move(learner);
  return checkpoint.empty() ? Expected<void>() : learner_->load_checkpoint(checkpoint);
}

Expected<StepTrained> LearnerActor::train(const TrainStep& request) {
  MEMOPD_RETURN_IF_ERROR(check_restored());
  if (trained_ && trained_->first == request.batch) {
    return trained_->second;
  }
  auto batch = objects().get<StepBatch>(request.batch);
  if (!batch) {
    return unexpected(batch.error());
  }
  auto report =
      learner_->step(**batch, [this](const ObjectRef& scores) { return objects().get<TeacherScores>(scores); });
  if (!report) {
    return unexpected(report.error());
  }
  StepTrained trained;
  trained.policy_version = report->policy_version;
  trained.num_optimizer_steps = report->num_optimizer_steps;
  trained.num_trained = report->num_trained;
  trained.max_skipped_in_a_row = report->max_skipped_in_a_row;
  for (const DroppedTrajectory& dropped : report->dropped) {
    trained.dropped.push_back({dropped.id, dropped.attempt, dropped.reason});
  }
  trained.metrics = std::move(report->metrics);
  if (rank() == 0) {
    trained.weights = put_weights();
  }
  trained_ = {request.batch, trained};
  return trained;
}

Expected<CheckpointSaved> LearnerActor::save(const SaveCheckpoint& request) {
  MEMOPD_RETURN_IF_ERROR(check_restored());
  MEMOPD_RETURN_IF_ERROR(learner_->save_checkpoint(request.folder, request.run_state));
  return CheckpointSaved{};
}

Expected<WeightsShared> LearnerActor::share(const ShareWeights&) {
  MEMOPD_RETURN_IF_ERROR(check_restored());
  return WeightsShared{learner_->policy_version(), put_weights()};
}

ObjectRef LearnerActor::put_weights() {
  return objects().put(std::make_shared<const WeightSet>(learner_->weights()),
                       Scope{ScopeKind::version, learner_->policy_version()});
}

}  // namespace memopd

// Between the steps of a run: evaluations, checkpoints, and the way back from one.
#include <filesystem>
#include <utility>
#include <variant>

#include "actors/coordinator_actor.hpp"
#include "runtime/base/log.hpp"
#include "runtime/telemetry/rewind.hpp"

namespace memopd {
void CoordinatorActor::evaluate(const EvaluationRequest& request, const std::string& moment, Then then) {
  auto tasks = evaluation_tasks(config_->eval, *tasks_, request);
  if (!tasks) {
    fail_run("evaluation", tasks.error());
    return;
  }
  if (tasks->empty()) {
    then();
    return;
  }
  log_info("coordinator", "evaluation_began", {{"step", request.step}, {"moment", moment}, {"tasks", tasks->size()}});
  const auto began = now();
  dispatcher_->run(*std::move(tasks))
      .then([this, request, moment, began, then = std::move(then)](const Expected<TasksDone>& done) {
        if (is_over_) {
          return;
        }
        if (!done) {
          fail_run("evaluation", done.error());
          return;
        }
        summary_.durations["evaluation"] += seconds(now() - began);
        note_evaluation(request, moment, summarize(config_->eval, request, done->trajectories));
        then();
      });
}

void CoordinatorActor::note_evaluation(const EvaluationRequest& request, const std::string& moment,
                                       const EvaluationResult& result) {
  if (!moment.empty()) {
    summary_.metrics[moment] = result.summary;
  }
  write_metrics(result.metrics);
  for (const auto& [name, value] : result.summary) {
    if (const auto* interval = std::get_if<Interval>(&value); interval != nullptr && !name.ends_with("_em")) {
      log_info("coordinator", "evaluated",
               {{"step", request.step},
                {"student", request.student},
                {"name", name},
                {"f1", interval->mean},
                {"low", interval->low},
                {"high", interval->high}});
    }
  }
  const auto best = result.metrics.find(config_->checkpoint.best);
  if (best != result.metrics.end() && checkpoints_) {
    checkpoints_->evaluated(request.step, best->second);
  }
  write_summary();
}

bool CoordinatorActor::is_due(std::int32_t every) const {
  const std::int32_t step = schedule_->num_trained();
  return every > 0 && step > 0 && step % every == 0 && step < config_->run.num_steps;
}

void CoordinatorActor::checkpoint(Then then) {
  const std::int32_t step = schedule_->num_trained();
  if (!checkpoints_ || checkpoints_->has(step)) {
    then();
    return;
  }
  summary_.durations["total"] = earlier_s_ + seconds(now() - run_began_);
  const RunState state{step, policy_version_, lineage_, summary_, checkpoints_->best(), alarms_->first_values()};
  const std::filesystem::path folder = checkpoints_->path(step);
  const auto learners = cluster().find("learner");
  ask<CheckpointSaved>((*learners)[0], SaveCheckpoint{folder.string(), to_json(state)}, ask_timeout_)
      .then([this, step, folder, then = std::move(then)](const Expected<CheckpointSaved>& saved) {
        if (is_over_) {
          return;
        }
        if (!saved) {
          fail_run("checkpoint", saved.error());
          return;
        }
        checkpoints_->saved(step);
        log_info("coordinator", "checkpoint_saved", {{"step", step}, {"folder", folder.string()}});
        then();
      });
}

/// Takes up what an earlier part of the run left. @return the first step to collect
Expected<std::int32_t> CoordinatorActor::restore() {
  RunState state;
  if (!init_.checkpoint.empty()) {
    auto loaded = load_run_state(init_.checkpoint);
    if (!loaded) {
      return unexpected(loaded.error());
    }
    state = *std::move(loaded);
    summary_ = state.summary;
    summary_.verdict = Verdict::stopped;
    summary_.first_failure.clear();
    earlier_s_ = summary_.durations["total"];
    policy_version_ = state.policy_version;
    lineage_ = state.lineage + 1;
    alarms_->restore(state.first_values);
    checkpoints_->restore_best(state.best);
  }
  if (!directory_) {
    return state.step;
  }
  if (init_.is_resumed) {
    checkpoints_->drop_after(state.step);
    constexpr std::int32_t kBeforeEverything = -1;
    MEMOPD_RETURN_IF_ERROR(
        rewind_run_files(directory_->path(), init_.checkpoint.empty() ? kBeforeEverything : state.step));
  }
  auto writer = MetricsWriter::create(directory_->path(), unix_time_s(),
                                      init_.is_resumed ? std::optional<std::int64_t>(state.step + 1) : std::nullopt);
  if (!writer) {
    return unexpected(writer.error());
  }
  writer_ = *std::move(writer);
  return state.step;
}

void CoordinatorActor::resume() {
  const std::int32_t step = schedule_->num_trained();
  log_info("coordinator", "resumed", {{"step", step}, {"checkpoint", init_.checkpoint}});
  const auto go_on = [this] {
    if (init_.checkpoint.empty()) {
      begin_anew();
    } else {
      share_weights([this] { after_step(); });
    }
  };
  if (!config_->ledger.enabled) {
    go_on();
    return;
  }
  auto align_pack = cluster().find("align_pack");
  ask<LineageBegun>((*align_pack)[0], BeginLineage{init_.interrupted_at, step}, ask_timeout_)
      .then([this, go_on](const Expected<LineageBegun>& begun) {
        if (!begun) {
          fail_run("ledger", begun.error());
          return;
        }
        lineage_ = begun->lineage;
        go_on();
      });
}

void CoordinatorActor::share_weights(Then then) {
  const auto learners = cluster().find("learner");
  ask<WeightsShared>((*learners)[0], ShareWeights{}, ask_timeout_)
      .then([this, then = std::move(then)](const Expected<WeightsShared>& shared) mutable {
        if (!shared) {
          fail_run("learner", shared.error());
          return;
        }
        if (shared->policy_version != policy_version_) {
          fail_run("resume", {ErrorCode::invalid_argument, "checkpoint " + init_.checkpoint +
                                                               ": the weights are of policy_version " +
                                                               std::to_string(shared->policy_version) +
                                                               ", the run was at " + std::to_string(policy_version_)});
          return;
        }
        publish(shared->weights, policy_version_, std::move(then));
      });
}

}  // namespace memopd

// Between the steps of a run: evaluations and checkpoints.
#include <filesystem>
#include <utility>
#include <variant>

#include "actors/coordinator_actor.hpp"
#include "runtime/base/log.hpp"

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
  dispatch(*std::move(tasks), [this, request, moment, began, then = std::move(then)](const Expected<TasksDone>& done) {
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
      .then(if_current([this, step, folder, then = std::move(then)](const Expected<CheckpointSaved>& saved) {
        if (!saved) {
          learner_failed("checkpoint", saved.error());
          return;
        }
        checkpoints_->saved(step);
        log_info("coordinator", "checkpoint_saved", {{"step", step}, {"folder", folder.string()}});
        then();
      }));
}

}  // namespace memopd

// One step of a run: dispatched, collected, closed, trained, recorded, published.
#include <algorithm>
#include <utility>

#include "actors/coordinator_actor.hpp"
#include "actors/gather.hpp"
#include "runtime/base/log.hpp"

namespace memopd {
namespace {

Sampling sampling_of(const SamplingConfig& config) {
  return {config.temperature, config.top_p, config.top_k, config.min_p, config.max_response_tokens, 0};
}

}  // namespace

Expected<std::vector<RunTask>> CoordinatorActor::training_tasks(std::int32_t step) const {
  const std::int32_t count = config_->learner.tasks_per_step;
  auto tasks = tasks_->tasks({"train", config_->run.seed, step * count, count, config_->env.front().num_objectives});
  if (!tasks) {
    return unexpected(tasks.error());
  }
  std::vector<RunTask> result;
  for (std::int32_t index = 0; index < count; ++index) {
    for (std::int32_t sample = 0; sample < config_->sampling.num_samples; ++sample) {
      RunTask task;
      task.trajectory_id = {"train", step, index, sample};
      task.task = (*tasks)[static_cast<std::size_t>(index)];
      task.sampling = sampling_of(config_->sampling);
      task.seed = trajectory_seed(config_->run.seed, task.trajectory_id);
      result.push_back(std::move(task));
    }
  }
  return result;
}

void CoordinatorActor::collect(std::int32_t step) {
  auto tasks = training_tasks(step);
  if (!tasks) {
    fail_run("tasks", tasks.error());
    return;
  }
  Step& entry = steps_[step];
  entry.number = step;
  entry.began = now();
  entry.num_trajectories = static_cast<double>(tasks->size());
  dispatch(*std::move(tasks), [this, step](const Expected<TasksDone>& done) {
    if (done) {
      collected(step, *done);
    } else {
      fail_run("collect", done.error());
    }
  });
}

void CoordinatorActor::collected(std::int32_t step, const TasksDone& done) {
  Step& entry = steps_.at(step);
  const double rollout_s = seconds(now() - entry.began);
  entry.metrics = rollout_metrics(done.trajectories);
  entry.metrics["time/rollout_s"] = rollout_s;
  summary_.durations["rollout"] += rollout_s;
  for (const TrajectoryDone& trajectory : done.trajectories) {
    if (is_trained(trajectory.status)) {
      entry.trajectory_ids.push_back(trajectory.trajectory_id);
      continue;
    }
    const std::string reason(to_string(trajectory.status));
    log_warning("coordinator", "trajectory_dropped",
                {{"trajectory", to_string(trajectory.trajectory_id)}, {"reason", reason}, {"note", trajectory.note}});
    entry.dropped.push_back({trajectory.trajectory_id, trajectory.attempt, reason});
    if (config_->run.is_deterministic && trajectory.status == TrajectoryStatus::timeout) {
      fail_run("deterministic",
               {ErrorCode::timeout, "trajectory " + to_string(trajectory.trajectory_id) +
                                        " met a deadline, which depends on the machine: " + trajectory.note});
      return;
    }
  }
  schedule_->collected(step);
  advance();
}

void CoordinatorActor::close(std::int32_t step) {
  current_ = std::move(steps_.extract(step).mapped());
  current_.phase_began = now();
  current_.metrics["time/learner_wait_s"] = seconds(now() - last_step_done_);
  auto align_pack = cluster().find("align_pack");
  ask<StepClosed>((*align_pack)[0], CloseStep{lineage_, step, policy_version_, current_.trajectory_ids}, ask_timeout_)
      .then(if_current([this](const Expected<StepClosed>& closed) {
        if (closed) {
          train(*closed);
        } else {
          fail_run("align_pack", closed.error());
        }
      }));
}

void CoordinatorActor::train(const StepClosed& closed) {
  mark("score");
  for (const auto& [name, value] : closed.metrics) {
    current_.metrics[name] = value;
  }
  auto batch = objects().get<StepBatch>(closed.batch);
  if (!batch) {
    fail_run("align_pack", batch.error());
    return;
  }
  std::vector<Later<StepTrained>> answers;
  const auto learners = cluster().find("learner");
  for (const ActorRef& learner : *learners) {
    answers.push_back(ask<StepTrained>(learner, TrainStep{closed.batch}, ask_timeout_));
  }
  gather(std::move(answers), if_current([this, batch = *batch](const Expected<std::vector<StepTrained>>& ranks) {
           if (ranks) {
             trained(batch, *ranks);
           } else {
             learner_failed("learner", ranks.error());
           }
         }));
}

void CoordinatorActor::trained(const std::shared_ptr<const StepBatch>& batch, const std::vector<StepTrained>& ranks) {
  mark("train");
  const StepTrained& report = ranks.front();
  for (const auto& [name, value] : report.metrics) {
    current_.metrics[name] = value;
  }
  current_.dropped.insert(current_.dropped.end(), report.dropped.begin(), report.dropped.end());
  std::sort(current_.dropped.begin(), current_.dropped.end(),
            [](const DroppedFromStep& a, const DroppedFromStep& b) { return a.trajectory_id < b.trajectory_id; });
  for (const DroppedFromStep& dropped : current_.dropped) {
    current_.metrics["rollout/dropped/" + dropped.reason] += 1;
  }
  summary_.counts.trained += report.num_trained;
  summary_.counts.dropped += static_cast<std::int64_t>(current_.dropped.size());
  summary_.counts.superseded += static_cast<std::int64_t>(current_.metrics["load/superseded"]);
  num_empty_steps_ = report.num_trained == 0 ? num_empty_steps_ + 1 : 0;
  if (may_go_on(report)) {
    record(batch, report);
  }
}

bool CoordinatorActor::may_go_on(const StepTrained& report) {
  const AlarmsConfig& alarms = config_->alarms;
  if (num_empty_steps_ >= alarms.max_empty_steps) {
    fail_run("alarm",
             {ErrorCode::refused, std::to_string(num_empty_steps_) + " steps in a row without a trained trajectory"});
    return false;
  }
  if (report.max_skipped_in_a_row >= alarms.max_skipped_updates) {
    fail_run("alarm",
             {ErrorCode::non_finite, std::to_string(report.max_skipped_in_a_row) +
                                         " updates in a row skipped for non-finite gradients, allowed fewer than " +
                                         std::to_string(alarms.max_skipped_updates)});
    return false;
  }
  return true;
}

void CoordinatorActor::record(const std::shared_ptr<const StepBatch>& batch, const StepTrained& report) {
  RecordStep request{batch->lineage, batch->step, batch->policy_version, {}, current_.dropped};
  for (const Trajectory& trajectory : batch->trajectories) {
    const bool is_dropped =
        std::any_of(current_.dropped.begin(), current_.dropped.end(),
                    [&](const DroppedFromStep& dropped) { return dropped.trajectory_id == trajectory.id; });
    if (!is_dropped) {
      request.trajectory_ids.push_back(trajectory.id);
    }
  }
  auto align_pack = cluster().find("align_pack");
  ask<Acknowledged>((*align_pack)[0], std::move(request), ask_timeout_)
      .then(if_current([this, report, step = batch->step](const Expected<Acknowledged>& recorded) {
        objects().release_scope({ScopeKind::step, step});
        if (!recorded) {
          fail_run("ledger", recorded.error());
        } else if (report.policy_version == policy_version_) {
          step_done();
        } else {
          publish({report.policy_version, report.weights}, [this] { step_done(); });
        }
      }));
}

/// Every student that is there; one that is being restarted asks for the weights itself.
void CoordinatorActor::publish(const WeightsShared& weights, Then then) {
  const WeightsShared before = std::exchange(published_, weights);
  std::vector<Later<WeightsLoaded>> answers;
  const auto students = cluster().find("student");
  for (const ActorRef& student : *students) {
    const bool is_there = student.is_alive();
    auto answer = ask<WeightsLoaded>(student, LoadWeights{weights.weights}, ask_timeout_)
                      .then([student](const Expected<WeightsLoaded>& loaded) -> Expected<WeightsLoaded> {
                        const bool is_restarted = !loaded && loaded.error().code == ErrorCode::target_down;
                        return is_restarted && student.is_expected() ? Expected(WeightsLoaded{}) : loaded;
                      });
    if (is_there) {
      answers.push_back(std::move(answer));
    }
  }
  if (answers.empty()) {
    answers.push_back(Later<WeightsLoaded>::ready(WeightsLoaded{}));
  }
  gather(std::move(answers),
         if_current([this, before, then = std::move(then)](const Expected<std::vector<WeightsLoaded>>& loaded) {
           published(loaded, before, then);
         }));
}

void CoordinatorActor::published(const Expected<std::vector<WeightsLoaded>>& loaded, const WeightsShared& before,
                                 const Then& then) {
  if (!loaded) {
    fail_run("student", loaded.error());
    return;
  }
  policy_version_ = published_.policy_version;
  if (before.policy_version != policy_version_) {
    objects().release_scope({ScopeKind::version, before.policy_version});
  } else if (before.weights != ObjectRef{} && before.weights != published_.weights) {
    (void)objects().release(before.weights);
  }
  then();
}

void CoordinatorActor::step_done() {
  mark("publish");
  const double step_s = seconds(now() - last_step_done_);
  last_step_done_ = now();
  const double tokens_per_s = current_.metrics["rollout/response_tokens"] * current_.num_trajectories / step_s;
  current_.metrics["time/step_s"] = step_s;
  current_.metrics["load/tokens_per_s"] = tokens_per_s;
  current_.metrics["run/policy_version"] = static_cast<double>(policy_version_);
  add_load_metrics(current_.metrics, step_s);
  schedule_->trained();
  num_recoveries_in_a_row_ = 0;
  summary_.steps = schedule_->num_trained();
  write_metrics(current_.metrics);
  write_summary();
  log_info("coordinator", "step_done",
           {{"step", summary_.steps},
            {"num_steps", config_->run.num_steps},
            {"reward", current_.metrics["rollout/reward/final"]},
            {"f1", current_.metrics["rollout/f1"]},
            {"tokens_per_s", tokens_per_s},
            {"elapsed_s", seconds(now() - run_began_)}});
  raise_alarms();
  if (!is_stopping_ && is_out_of_time()) {
    log_info("coordinator", "out_of_time", {{"max_hours", config_->run.max_hours}, {"step", summary_.steps}});
    is_stopping_ = true;
    schedule_->stop();
  }
  is_between_steps_ = true;
  after_step();
}

void CoordinatorActor::after_step() {
  const bool evaluates = is_due(config_->eval.every);
  const auto go_on = [this] {
    is_between_steps_ = false;
    last_step_done_ = now();
    advance();
  };
  const auto evaluate_then = [this, evaluates, go_on] {
    if (evaluates) {
      evaluate({"student", "", schedule_->num_trained(), true}, "", go_on);
    } else {
      go_on();
    }
  };
  if (is_due(config_->checkpoint.every) || (evaluates && !config_->checkpoint.best.empty())) {
    checkpoint(evaluate_then);
  } else {
    evaluate_then();
  }
}

void CoordinatorActor::add_load_metrics(std::map<std::string, double>& metrics, double step_s) {
  std::map<std::string, double> busy_ms;
  std::map<std::string, double> num_actors;
  for (const ActorStatus& actor : cluster().topology().actors) {
    busy_ms[actor.group] += actor.busy_ms;
    num_actors[actor.group] += 1;
  }
  for (const auto& [group, busy] : busy_ms) {
    metrics["load/idle_frac/" + group] = 1.0 - (busy - busy_ms_[group]) / (1000 * step_s * num_actors[group]);
  }
  busy_ms_ = std::move(busy_ms);
}

void CoordinatorActor::raise_alarms() {
  for (const Alarm& alarm : alarms_->check(current_.metrics)) {
    log_warning("coordinator", "alarm",
                {{"step", summary_.steps},
                 {"alarm", alarm.name},
                 {"metric", alarm.metric},
                 {"value", alarm.value},
                 {"limit", alarm.limit},
                 {"setting", alarm.setting}});
  }
}

void CoordinatorActor::mark(const std::string& phase) {
  const auto time = now();
  const double phase_s = seconds(time - current_.phase_began);
  current_.metrics["time/" + phase + "_s"] = phase_s;
  summary_.durations[phase] += phase_s;
  current_.phase_began = time;
}

}  // namespace memopd

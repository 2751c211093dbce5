#include "actors/coordinator_actor.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "actors/gather.hpp"
#include "actors/role_setup.hpp"
#include "envs/task_set.hpp"
#include "runtime/base/log.hpp"

namespace memopd {

MEMOPD_REGISTER_ACTOR("coordinator", CoordinatorActor, RoleInit)

namespace {

double seconds(std::chrono::nanoseconds duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Expected<std::unique_ptr<TaskSource>> open_task_source(const EnvConfig& config) {
  if (config.tasks.empty()) {
    return make_task_source(config.name, environment_options(config));
  }
  auto tasks = TaskSet::load({{"train", config.tasks}});
  if (!tasks) {
    return unexpected(tasks.error());
  }
  return std::unique_ptr<TaskSource>(*std::move(tasks));
}

CoordinatorActor::CoordinatorActor(RoleInit init) : init_(std::move(init)) {}

void CoordinatorActor::setup() {
  on(&CoordinatorActor::start_run);
  on(&CoordinatorActor::stop_run);
  on(&CoordinatorActor::run_tasks);
  if (auto loaded = load(); !loaded) {
    fail(loaded.error());
  }
}

Expected<void> CoordinatorActor::load() {
  auto config = load_role_config(init_);
  if (!config) {
    return unexpected(config.error());
  }
  config_ = *std::move(config);
  ask_timeout_ = std::chrono::seconds(config_->run.step_timeout_s);
  auto tasks = open_task_source(config_->env.front());
  if (!tasks) {
    return unexpected(tasks.error());
  }
  tasks_ = *std::move(tasks);
  auto envs = cluster().find("env");
  if (!envs) {
    return unexpected(envs.error());
  }
  dispatcher_ = std::make_unique<TaskDispatcher>(
      *envs, config_->env.front().num_slots,
      [this](const ActorRef& env, RunTask task) { return ask<TrajectoryDone>(env, std::move(task), ask_timeout_); });
  if (!init_.run_directory.empty()) {
    auto directory = RunDirectory::open(init_.run_directory);
    if (!directory) {
      return unexpected(directory.error());
    }
    directory_ = *std::move(directory);
    auto writer = MetricsWriter::create(directory_->path());
    if (!writer) {
      return unexpected(writer.error());
    }
    writer_ = *std::move(writer);
  }
  return {};
}

Later<TasksDone> CoordinatorActor::run_tasks(const RunTasks& request) { return dispatcher_->run(request.tasks); }

Later<RunEnded> CoordinatorActor::start_run(const StartRun&) {
  if (ended_) {
    return unexpected(ErrorCode::refused, "the run has started");
  }
  ended_ = make_promise<RunEnded>();
  auto later = ended_->later();
  run_began_ = phase_began_ = now();
  evaluate({"student", "", 0, false}, "cold_start", [this] {
    if (!config_->eval.teacher) {
      collect();
      return;
    }
    evaluate({"teacher_policy", "teacher_", 0, false}, "teacher", [this] { collect(); });
  });
  return later;
}

void CoordinatorActor::stop_run(const StopRun&) {
  is_stopping_ = true;
  log_info("coordinator", "stop_requested", {{"step", step_}});
}

void CoordinatorActor::evaluate(const EvaluationRequest& request, const std::string& moment,
                                std::function<void()> then) {
  auto tasks = evaluation_tasks(config_->eval, *tasks_, request);
  if (!tasks) {
    fail_run("evaluation", tasks.error());
    return;
  }
  if (tasks->empty()) {
    then();
    return;
  }
  log_info("coordinator", "evaluation_began", {{"step", step_}, {"moment", moment}, {"tasks", tasks->size()}});
  dispatcher_->run(*std::move(tasks))
      .then([this, request, moment, then = std::move(then)](const Expected<TasksDone>& done) {
        if (!done) {
          fail_run("evaluation", done.error());
          return;
        }
        const EvaluationResult result = summarize(config_->eval, request, done->trajectories);
        if (!moment.empty()) {
          summary_.metrics[moment] = result.summary;
        }
        write_metrics(result.metrics);
        for (const auto& [name, value] : result.summary) {
          if (const auto* interval = std::get_if<Interval>(&value); interval != nullptr && !name.ends_with("_em")) {
            log_info("coordinator", "evaluated",
                     {{"step", step_},
                      {"student", request.student},
                      {"name", name},
                      {"f1", interval->mean},
                      {"low", interval->low},
                      {"high", interval->high}});
          }
        }
        summary_.durations["evaluation"] += seconds(now() - phase_began_);
        phase_began_ = now();
        write_summary();
        then();
      });
}

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
      task.sampling = {config_->sampling.temperature,
                       config_->sampling.top_p,
                       config_->sampling.top_k,
                       config_->sampling.min_p,
                       config_->sampling.max_response_tokens,
                       0};
      task.seed = trajectory_seed(config_->run.seed, task.trajectory_id);
      result.push_back(std::move(task));
    }
  }
  return result;
}

void CoordinatorActor::collect() {
  if (step_ == config_->run.num_steps || is_stopping_) {
    checkpoint([this] {
      if (is_stopping_) {
        finish(Verdict::stopped);
      } else {
        evaluate({"student", "", step_, false}, "final", [this] { finish(Verdict::completed); });
      }
    });
    return;
  }
  step_metrics_.clear();
  step_began_ = phase_began_ = now();
  auto tasks = training_tasks(step_);
  if (!tasks) {
    fail_run("tasks", tasks.error());
    return;
  }
  dispatcher_->run(*std::move(tasks)).then([this](const Expected<TasksDone>& done) {
    if (done) {
      close(*done);
    } else {
      fail_run("collect", done.error());
    }
  });
}

void CoordinatorActor::close(const TasksDone& collected) {
  mark("rollout");
  step_metrics_.merge(rollout_metrics(collected.trajectories));
  CloseStep request{0, step_, policy_version_, {}};
  for (const TrajectoryDone& done : collected.trajectories) {
    if (done.note.empty() || is_trained(done.status)) {
      request.trajectory_ids.push_back(done.trajectory_id);
    } else {
      ++summary_.counts.dropped;
      log_warning(
          "coordinator", "trajectory_dropped",
          {{"trajectory", to_string(done.trajectory_id)}, {"reason", to_string(done.status)}, {"note", done.note}});
    }
  }
  auto align_pack = cluster().find("align_pack");
  ask<StepClosed>((*align_pack)[0], std::move(request), ask_timeout_).then([this](const Expected<StepClosed>& closed) {
    if (closed) {
      train(*closed);
    } else {
      fail_run("align_pack", closed.error());
    }
  });
}

void CoordinatorActor::train(const StepClosed& closed) {
  mark("score");
  for (const auto& [name, value] : closed.metrics) {
    step_metrics_[name] = value;
  }
  std::vector<Later<StepTrained>> answers;
  const auto learners = cluster().find("learner");
  for (const ActorRef& learner : *learners) {
    answers.push_back(ask<StepTrained>(learner, TrainStep{closed.batch}, ask_timeout_));
  }
  gather(std::move(answers), [this](const Expected<std::vector<StepTrained>>& ranks) {
    if (ranks) {
      trained(*ranks);
    } else {
      fail_run("learner", ranks.error());
    }
  });
}

void CoordinatorActor::trained(const std::vector<StepTrained>& ranks) {
  mark("train");
  const StepTrained& report = ranks.front();
  for (const auto& [name, value] : report.metrics) {
    step_metrics_[name] = value;
  }
  summary_.counts.trained += report.num_trained;
  for (const auto& [reason, count] : report.dropped) {
    summary_.counts.dropped += static_cast<std::int64_t>(count);
    step_metrics_["rollout/dropped/" + reason] = count;
  }
  objects().release_scope({ScopeKind::step, step_});
  num_empty_steps_ = report.num_trained == 0 ? num_empty_steps_ + 1 : 0;
  if (!check_alarms(report)) {
    return;
  }
  if (report.policy_version == policy_version_) {
    step_done();
    return;
  }
  publish(report.weights);
}

bool CoordinatorActor::check_alarms(const StepTrained& report) {
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
  const auto gap = step_metrics_.find("train/rollout_gap");
  if (gap != step_metrics_.end() && gap->second > alarms.max_rollout_gap) {
    log_warning("coordinator", "rollout_gap",
                {{"step", step_}, {"gap", gap->second}, {"allowed", alarms.max_rollout_gap}});
  }
  return true;
}

void CoordinatorActor::publish(const ObjectRef& weights) {
  std::vector<Later<WeightsLoaded>> answers;
  const auto students = cluster().find("student");
  for (const ActorRef& student : *students) {
    answers.push_back(ask<WeightsLoaded>(student, LoadWeights{weights}, ask_timeout_));
  }
  gather(std::move(answers), [this](const Expected<std::vector<WeightsLoaded>>& loaded) {
    if (!loaded) {
      fail_run("student", loaded.error());
      return;
    }
    ++policy_version_;
    objects().release_scope({ScopeKind::version, policy_version_});
    step_done();
  });
}

void CoordinatorActor::step_done() {
  mark("publish");
  const double step_s = seconds(now() - step_began_);
  const auto count = static_cast<double>(config_->learner.tasks_per_step * config_->sampling.num_samples);
  const double tokens_per_s = step_metrics_["rollout/response_tokens"] * count / step_s;
  step_metrics_["time/step_s"] = step_s;
  step_metrics_["load/tokens_per_s"] = tokens_per_s;
  step_metrics_["run/policy_version"] = static_cast<double>(policy_version_);
  ++step_;
  summary_.steps = step_;
  write_metrics(step_metrics_);
  write_summary();
  log_info("coordinator", "step_done",
           {{"step", step_},
            {"num_steps", config_->run.num_steps},
            {"reward", step_metrics_["rollout/reward/final"]},
            {"f1", step_metrics_["rollout/f1"]},
            {"tokens_per_s", tokens_per_s},
            {"elapsed_s", seconds(now() - run_began_)}});
  const auto is_due = [&](std::int32_t every) {
    return every > 0 && step_ % every == 0 && step_ < config_->run.num_steps;
  };
  const auto go_on = [this, evaluates = is_due(config_->eval.every)] {
    if (evaluates) {
      phase_began_ = now();
      evaluate({"student", "", step_, true}, "", [this] { collect(); });
    } else {
      collect();
    }
  };
  if (is_due(config_->checkpoint.every)) {
    checkpoint(go_on);
  } else {
    go_on();
  }
}

void CoordinatorActor::checkpoint(std::function<void()> then) {
  const std::filesystem::path folder = directory_ ? directory_->checkpoint(step_) : std::filesystem::path();
  if (!directory_ || (!checkpoints_.empty() && checkpoints_.back() == folder)) {
    then();
    return;
  }
  const auto learners = cluster().find("learner");
  ask<CheckpointSaved>((*learners)[0], SaveCheckpoint{folder.string(), step_}, ask_timeout_)
      .then([this, folder, then = std::move(then)](const Expected<CheckpointSaved>& saved) {
        if (!saved) {
          fail_run("checkpoint", saved.error());
          return;
        }
        checkpoints_.push_back(folder);
        while (static_cast<std::int32_t>(checkpoints_.size()) > config_->checkpoint.keep) {
          std::error_code ignored;
          std::filesystem::remove_all(checkpoints_.front(), ignored);
          checkpoints_.erase(checkpoints_.begin());
        }
        log_info("coordinator", "checkpoint_saved", {{"step", step_}, {"folder", folder.string()}});
        then();
      });
}

void CoordinatorActor::finish(Verdict verdict) {
  summary_.verdict = verdict;
  summary_.durations["total"] = seconds(now() - run_began_);
  write_summary();
  log_info("coordinator", "run_ended", {{"verdict", to_string(verdict)}, {"step", step_}});
  ended_->deliver(RunEnded{std::string(to_string(verdict)), summary_.first_failure});
}

void CoordinatorActor::fail_run(const std::string& what, const Error& error) {
  if (!summary_.first_failure.empty()) {
    return;
  }
  summary_.first_failure = "step " + std::to_string(step_) + ", " + what + ": " + error.message;
  log_error("coordinator", "run_failed", {{"step", step_}, {"what", what}, {"error", error.message}});
  finish(Verdict::failed);
}

void CoordinatorActor::write_metrics(const std::map<std::string, double>& metrics) {
  if (!writer_) {
    return;
  }
  if (auto written = writer_->write(step_, metrics); !written) {
    log_error("coordinator", "metrics_not_written", {{"error", written.error().message}});
  }
}

void CoordinatorActor::write_summary() {
  if (!directory_) {
    return;
  }
  summary_.counts.superseded = static_cast<std::int64_t>(step_metrics_["align/superseded"]);
  if (auto written = directory_->write_summary(summary_); !written) {
    log_error("coordinator", "summary_not_written", {{"error", written.error().message}});
  }
}

void CoordinatorActor::mark(const std::string& phase) {
  const auto time = now();
  step_metrics_["time/" + phase + "_s"] = seconds(time - phase_began_);
  summary_.durations[phase] += seconds(time - phase_began_);
  phase_began_ = time;
}

}  // namespace memopd

// The run as a whole: start, what comes next, end.
#include "actors/coordinator_actor.hpp"

#include <utility>

#include "actors/role_setup.hpp"
#include "actors/who_waits.hpp"
#include "envs/task_set.hpp"
#include "runtime/base/log.hpp"

namespace memopd {

MEMOPD_REGISTER_ACTOR("coordinator", CoordinatorActor, RoleInit)

namespace {

constexpr std::chrono::milliseconds kLookEvery{1000};

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
  on(&CoordinatorActor::look_for_progress);
  on(&CoordinatorActor::get_weights);
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
  alarms_.emplace(config_->alarms, config_->run.max_policy_lag == 0);
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
  return init_.run_directory.empty() ? Expected<void>() : open_directory();
}

Expected<void> CoordinatorActor::open_directory() {
  auto directory = RunDirectory::open(init_.run_directory);
  if (!directory) {
    return unexpected(directory.error());
  }
  directory_ = *std::move(directory);
  checkpoints_.emplace(directory_->checkpoints(), config_->checkpoint.keep);
  return {};
}

Later<TasksDone> CoordinatorActor::run_tasks(const RunTasks& request) { return dispatcher_->run(request.tasks); }

Later<RunEnded> CoordinatorActor::start_run(const StartRun&) {
  if (ended_) {
    return unexpected(ErrorCode::refused, "the run has started");
  }
  ended_ = make_promise<RunEnded>();
  auto later = ended_->later();
  run_began_ = last_step_done_ = last_progress_ = now();
  after(kLookEvery, LookForProgress{});
  watch_align_pack();
  watch_learners();
  if (init_.is_resumed) {
    lineage_ = BeginLineage::kWhatTheLedgerHas;
    go_back(init_.checkpoint, lineage_, init_.interrupted_at);
  } else if (auto begun = take_up({}, false); !begun) {
    fail_run("start", begun.error());
  } else {
    begin_anew();
  }
  return later;
}

void CoordinatorActor::dispatch(std::vector<RunTask> tasks,
                                const std::function<void(const Expected<TasksDone>&)>& then) {
  for (RunTask& task : tasks) {
    task.lineage = lineage_;
  }
  dispatcher_->run(std::move(tasks)).then(if_current(then));
}

void CoordinatorActor::begin_anew() {
  evaluate({"student", "", 0, false}, "cold_start", [this] {
    const auto go_on = [this] {
      is_between_steps_ = false;
      last_step_done_ = now();
      advance();
    };
    if (config_->eval.teacher) {
      evaluate({"teacher_policy", "teacher_", 0, false}, "teacher", go_on);
    } else {
      go_on();
    }
  });
}

void CoordinatorActor::stop_run(const StopRun&) {
  is_stopping_ = true;
  log_info("coordinator", "stop_requested", {{"step", schedule_ ? schedule_->num_trained() : 0}});
  if (schedule_) {
    schedule_->stop();
    advance();
  }
}

void CoordinatorActor::advance() {
  if (is_between_steps_ || is_over_) {
    return;
  }
  while (const auto step = schedule_->take_to_collect()) {
    collect(*step);
    if (is_over_) {
      return;
    }
  }
  if (const auto step = schedule_->take_to_train()) {
    close(*step);
  } else if (schedule_->is_done()) {
    end_run();
  }
}

void CoordinatorActor::end_run() {
  is_between_steps_ = true;
  const std::int32_t step = schedule_->num_trained();
  checkpoint([this, step] {
    if (step < config_->run.num_steps) {
      finish(Verdict::stopped);
    } else {
      evaluate({"student", "", step, false}, "final", [this] { finish(Verdict::completed); });
    }
  });
}

bool CoordinatorActor::is_out_of_time() const {
  return config_->run.max_hours > 0 && seconds(now() - run_began_) >= config_->run.max_hours * 3600;
}

void CoordinatorActor::look_for_progress(const LookForProgress&) {
  if (is_over_) {
    return;
  }
  const Topology topology = cluster().topology();
  std::int64_t num_handled = 0;
  for (const ActorStatus& actor : topology.actors) {
    num_handled += actor.name == self().name() ? 0 : actor.num_handled;
  }
  if (std::exchange(num_handled_, num_handled) != num_handled) {
    last_progress_ = now();
  }
  const double still_s = seconds(now() - last_progress_);
  if (still_s < config_->alarms.no_progress_s) {
    is_wait_reported_ = false;
  } else if (!is_wait_reported_) {
    is_wait_reported_ = true;
    log_warning("coordinator", "no_progress",
                {{"since_s", still_s},
                 {"step", schedule_ ? schedule_->num_trained() : 0},
                 {"tasks_waiting", dispatcher_->num_waiting()},
                 {"who", describe_wait(topology, self().name())}});
  }
  after(kLookEvery, LookForProgress{});
}

void CoordinatorActor::finish(Verdict verdict) {
  is_over_ = true;
  summary_.verdict = verdict;
  summary_.durations["total"] = earlier_s_ + seconds(now() - run_began_);
  summary_.counts.pending = 0;
  for (const auto& [number, step] : steps_) {
    summary_.counts.pending += static_cast<std::int64_t>(step.num_trajectories);
  }
  write_summary();
  log_info("coordinator", "run_ended", {{"verdict", to_string(verdict)}, {"step", summary_.steps}});
  ended_->deliver(RunEnded{std::string(to_string(verdict)), summary_.first_failure});
}

void CoordinatorActor::fail_run(const std::string& what, const Error& error) {
  if (is_over_) {
    return;
  }
  const std::int32_t step = schedule_ ? schedule_->num_trained() : 0;
  summary_.first_failure = "step " + std::to_string(step) + ", " + what + ": " + error.message;
  log_error("coordinator", "run_failed", {{"step", step}, {"what", what}, {"error", error.message}});
  finish(Verdict::failed);
}

void CoordinatorActor::write_metrics(const std::map<std::string, double>& metrics) {
  if (!writer_) {
    return;
  }
  if (auto written = writer_->write(schedule_->num_trained(), metrics); !written) {
    log_error("coordinator", "metrics_not_written", {{"error", written.error().message}});
  }
}

void CoordinatorActor::write_summary() {
  if (!directory_) {
    return;
  }
  if (auto written = directory_->write_summary(summary_); !written) {
    log_error("coordinator", "summary_not_written", {{"error", written.error().message}});
  }
}

}  // namespace memopd

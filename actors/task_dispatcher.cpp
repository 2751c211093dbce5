#include "actors/task_dispatcher.hpp"

#include <utility>

#include "runtime/base/log.hpp"

namespace memopd {

struct TaskDispatcher::Batch {
  TasksDone result;
  std::size_t num_open = 0;
  bool is_given_up = false;
  Promise<TasksDone> promise;
};

TaskDispatcher::TaskDispatcher(ActorGroup envs, std::int32_t slots_per_actor, Ask ask)
    : envs_(std::move(envs)), slots_per_actor_(slots_per_actor), ask_(std::move(ask)) {}

Later<TasksDone> TaskDispatcher::run(std::vector<RunTask> tasks) {
  if (tasks.empty()) {
    return Later<TasksDone>::ready(TasksDone{});
  }
  auto batch = std::make_shared<Batch>();
  batch->result.trajectories.resize(tasks.size());
  batch->num_open = tasks.size();
  auto later = batch->promise.later();
  std::erase_if(open_, [](const std::weak_ptr<Batch>& open) { return open.expired(); });
  open_.push_back(batch);
  for (std::size_t index = 0; index < tasks.size(); ++index) {
    queue_.push_back({batch, index, std::move(tasks[index]), {}, {}});
  }
  pump();
  return later;
}

void TaskDispatcher::give_up(std::function<void()> then) {
  for (const std::weak_ptr<Batch>& weak : std::exchange(open_, {})) {
    if (const auto batch = weak.lock()) {
      batch->is_given_up = true;
      batch->promise.deliver(unexpected(ErrorCode::refused, "the run went back"));
    }
  }
  queue_.clear();
  when_idle_ = std::move(then);
  if (num_in_flight_ == 0) {
    std::exchange(when_idle_, nullptr)();
  }
}

/// Least loaded; not the one that the attempt before was lost with while there is another.
ActorRef TaskDispatcher::pick_for(const Entry& entry) {
  const ActorRef first = envs_.pick();
  if (first != entry.lost_with || envs_.size() == 1) {
    return first;
  }
  std::vector<ActorRef> picked = {first};
  while (picked.back() == entry.lost_with && picked.size() <= static_cast<std::size_t>(slots_per_actor_)) {
    picked.push_back(envs_.pick());
  }
  for (std::size_t i = 0; i + 1 < picked.size(); ++i) {
    envs_.done(picked[i]);
  }
  return picked.back();
}

void TaskDispatcher::pump() {
  while (!queue_.empty()) {
    const ActorRef env = pick_for(queue_.front());
    if (envs_.in_flight(env) > slots_per_actor_) {
      envs_.done(env);
      return;
    }
    Entry entry = std::move(queue_.front());
    queue_.pop_front();
    ++num_in_flight_;
    ask_(env, entry.task).then([this, env, entry](const Expected<TrajectoryDone>& done) {
      answered(env, entry, done);
    });
  }
}

void TaskDispatcher::answered(const ActorRef& env, Entry entry, const Expected<TrajectoryDone>& done) {
  envs_.done(env);
  --num_in_flight_;
  if (!entry.batch->is_given_up) {
    const bool is_lost = !done && done.error().code == ErrorCode::target_down;
    if (is_lost) {
      entry.reasons += (entry.reasons.empty() ? "" : "; ") + done.error().message;
    }
    if (is_lost && env.is_expected() && entry.task.attempt + 1 < kMaxAttempts) {
      log_warning("coordinator", "task_lost",
                  {{"trajectory", to_string(entry.task.trajectory_id)},
                   {"attempt", entry.task.attempt},
                   {"error", done.error().message}});
      ++entry.task.attempt;
      entry.lost_with = env;
      queue_.push_front(std::move(entry));
    } else {
      finished(entry, done);
    }
  }
  pump();
  if (num_in_flight_ == 0 && when_idle_) {
    std::exchange(when_idle_, nullptr)();
  }
}

void TaskDispatcher::finished(const Entry& entry, const Expected<TrajectoryDone>& done) {
  TrajectoryDone& result = entry.batch->result.trajectories[entry.index];
  if (done) {
    result = *done;
  } else {
    result.trajectory_id = entry.task.trajectory_id;
    result.attempt = entry.task.attempt;
    result.status = done.error().code == ErrorCode::timeout ? TrajectoryStatus::timeout : TrajectoryStatus::env_failed;
    result.note = entry.reasons.empty() ? done.error().message : entry.reasons;
    log_warning("coordinator", "task_failed",
                {{"trajectory", to_string(entry.task.trajectory_id)}, {"error", result.note}});
  }
  if (--entry.batch->num_open == 0) {
    entry.batch->promise.deliver(std::move(entry.batch->result));
  }
}

}  // namespace memopd

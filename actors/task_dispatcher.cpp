#include "actors/task_dispatcher.hpp"

#include <utility>

#include "runtime/base/log.hpp"

namespace memopd {

struct TaskDispatcher::Batch {
  TasksDone result;
  std::size_t num_open = 0;
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
  for (std::size_t index = 0; index < tasks.size(); ++index) {
    queue_.push_back({batch, index, std::move(tasks[index])});
  }
  pump();
  return later;
}

void TaskDispatcher::pump() {
  while (!queue_.empty()) {
    const ActorRef env = envs_.pick();
    if (envs_.in_flight(env) > slots_per_actor_) {
      envs_.done(env);
      return;
    }
    Entry entry = std::move(queue_.front());
    queue_.pop_front();
    ask_(env, entry.task).then([this, env, entry](const Expected<TrajectoryDone>& done) {
      envs_.done(env);
      finished(entry.batch, entry.index, entry.task, done);
      pump();
    });
  }
}

void TaskDispatcher::finished(const std::shared_ptr<Batch>& batch, std::size_t index, const RunTask& task,
                              const Expected<TrajectoryDone>& done) {
  TrajectoryDone& result = batch->result.trajectories[index];
  if (done) {
    result = *done;
  } else {
    result.trajectory_id = task.trajectory_id;
    result.attempt = task.attempt;
    result.status = done.error().code == ErrorCode::timeout ? TrajectoryStatus::timeout : TrajectoryStatus::env_failed;
    result.note = done.error().message;
    log_warning("coordinator", "task_failed",
                {{"trajectory", to_string(task.trajectory_id)}, {"error", done.error().message}});
  }
  if (--batch->num_open == 0) {
    batch->promise.deliver(std::move(batch->result));
  }
}

}  // namespace memopd

// Hands tasks to env actors, as many at a time as they have slots, and gathers what came of them.
//
// Part of the actor that owns it: runs on its context. A task whose env actor dies or does not answer counts as
// env_failed or timeout with the reason; the rest goes on.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "actors/messages.hpp"
#include "runtime/actor/actor_pool.hpp"
#include "runtime/actor/later.hpp"

namespace memopd {

class TaskDispatcher {
 public:
  using Ask = std::function<Later<TrajectoryDone>(const ActorRef&, RunTask)>;

  /// @param slots_per_actor  tasks one env actor runs at a time; >= 1
  /// @param ask              sends one task with a deadline
  TaskDispatcher(ActorGroup envs, std::int32_t slots_per_actor, Ask ask);

  /// Runs `tasks`; the answer has one entry per task, in order.
  Later<TasksDone> run(std::vector<RunTask> tasks);

  [[nodiscard]] std::size_t num_waiting() const { return queue_.size(); }

 private:
  struct Batch;
  struct Entry {
    std::shared_ptr<Batch> batch;
    std::size_t index = 0;
    RunTask task;
  };

  void pump();
  void finished(const std::shared_ptr<Batch>& batch, std::size_t index, const RunTask& task,
                const Expected<TrajectoryDone>& done);

  ActorPool envs_;
  std::int32_t slots_per_actor_;
  Ask ask_;
  std::deque<Entry> queue_;
};

}  // namespace memopd

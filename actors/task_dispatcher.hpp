// Hands tasks to env actors, as many at a time as they have slots, and gathers what came of them.
//
// Part of the actor that owns it: runs on its context. A task whose env actor is restarted is a new attempt, with another
// actor if there is one, kMaxAttempts times; whose env actor ends for good or does not answer, it counts as env_failed or
// timeout with the reasons; the rest goes on.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/messages.hpp"
#include "runtime/actor/actor_pool.hpp"
#include "runtime/actor/later.hpp"

namespace memopd {

class TaskDispatcher {
 public:
  static constexpr std::int32_t kMaxAttempts = 5;
  using Ask = std::function<Later<TrajectoryDone>(const ActorRef&, RunTask)>;

  /// @param slots_per_actor  tasks one env actor runs at a time; >= 1
  /// @param ask              sends one task with a deadline
  TaskDispatcher(ActorGroup envs, std::int32_t slots_per_actor, Ask ask);

  /// Runs `tasks`; the answer has one entry per task, in order.
  Later<TasksDone> run(std::vector<RunTask> tasks);

  /// Gives up every task: what waits is not dispatched, what comes of the others is ignored, whoever ran them is refused.
  /// `then` is called, once, when no env actor has any of them any more; a later give_up forgets it.
  void give_up(std::function<void()> then);

  [[nodiscard]] std::size_t num_waiting() const { return queue_.size(); }

 private:
  struct Batch;
  struct Entry {
    std::shared_ptr<Batch> batch;
    std::size_t index = 0;
    RunTask task;
    ActorRef lost_with;   ///< the env actor of the attempt before
    std::string reasons;  ///< of the attempts so far
  };

  [[nodiscard]] ActorRef pick_for(const Entry& entry);
  void pump();
  void answered(const ActorRef& env, Entry entry, const Expected<TrajectoryDone>& done);
  void finished(const Entry& entry, const Expected<TrajectoryDone>& done);

  ActorPool envs_;
  std::int32_t slots_per_actor_;
  Ask ask_;
  std::deque<Entry> queue_;
  std::vector<std::weak_ptr<Batch>> open_;
  std::int64_t num_in_flight_ = 0;
  std::function<void()> when_idle_;
};

}  // namespace memopd

// Which step may be collected and which may be trained, in a run whose learner may lag behind its rollouts.
//
// Steps are numbered from 0. A step is collected (its tasks are dispatched and end), then trained; steps are trained in
// order, one at a time; training step s makes version s + 1 at most.
// RL-3  step s is not dispatched before step s - max_lag is trained and published, so that no token of it is older than
//       max_lag versions when it is trained. max_lag 0: collect, train, collect, ..
// No actor, no thread, no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

namespace memopd {

class StepSchedule {
 public:
  /// @param first_step  steps before it are trained already; <= num_steps
  StepSchedule(std::int32_t first_step, std::int32_t num_steps, std::int32_t max_lag);

  /// The next step to dispatch now, marked as dispatched; nothing when the learner must catch up first.
  std::optional<std::int32_t> take_to_collect();
  /// Every trajectory of `step` has ended.
  void collected(std::int32_t step);
  /// The next step to train now, marked as being trained; nothing while one is, or while its trajectories run.
  std::optional<std::int32_t> take_to_train();
  /// The step being trained is trained and its weights are published.
  void trained();
  /// No further step is dispatched. With max_lag 0 the step in progress is finished, else only the one being trained.
  void stop();

  /// Nothing is left to do.
  [[nodiscard]] bool is_done() const { return !is_training_ && num_trained_ >= end_; }
  /// Steps trained: the number of the next to be trained.
  [[nodiscard]] std::int32_t num_trained() const { return num_trained_; }
  [[nodiscard]] std::int32_t num_dispatched() const { return num_dispatched_; }
  [[nodiscard]] bool is_training() const { return is_training_; }

 private:
  std::int32_t num_trained_;
  std::int32_t num_dispatched_;
  std::int32_t end_;
  std::int32_t max_lag_;
  std::set<std::int32_t> collected_;  // and not yet taken to train
  bool is_training_ = false;
};

}  // namespace memopd

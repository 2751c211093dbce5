// coordinator: owns the schedule of a run. Collect, close the step, train, publish weights; evaluate and checkpoint at
// their times; end with a verdict and the first cause.
//
// One step:  RunTask* -> CloseStep -> TrainStep (every rank) -> RecordStep -> LoadWeights (every student).
// RL-2  a trajectory ends trained, dropped(reason), superseded or pending, and the counts say so.
// RL-3  step s is not dispatched before every student has acknowledged the weights of step s - 1 - max_policy_lag.
// CL-3  with a checkpoint the run goes on with the tasks, seeds, versions and schedules it would have had: when it is
//       resumed, and when a learner is lost in its course. Everybody else may be lost and restarted at any time.
// Evaluations and checkpoints happen between two trainings; meanwhile no step is dispatched and no weights change.
// Length: one class over four source files.
// Also runs tasks for whoever asks (RunTasks): evaluation and demonstrations outside a run.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/alarm_watch.hpp"
#include "actors/checkpoint_keeper.hpp"
#include "actors/evaluation.hpp"
#include "actors/messages.hpp"
#include "actors/run_state.hpp"
#include "actors/step_schedule.hpp"
#include "actors/task_dispatcher.hpp"
#include "runtime/actor/actor.hpp"
#include "runtime/config/schema.hpp"
#include "runtime/telemetry/metrics.hpp"
#include "runtime/telemetry/run_directory.hpp"
#include "runtime/telemetry/summary.hpp"

namespace memopd {

/// Tasks of [[env]]: its task file, or the environment's own.
/// @error not_found, parse_error  of the file; unsupported: neither
Expected<std::unique_ptr<TaskSource>> open_task_source(const EnvConfig& config);

/// To itself: look whether anything has moved.
struct LookForProgress {};
MEMOPD_MESSAGE(LookForProgress, 1)

class CoordinatorActor : public Actor {
 public:
  explicit CoordinatorActor(RoleInit init);

 protected:
  void setup() override;

 private:
  /// A step from its dispatch to its publication.
  struct Step {
    std::int32_t number = 0;
    std::map<std::string, double> metrics;
    std::chrono::nanoseconds began{};
    std::chrono::nanoseconds phase_began{};
    std::vector<TrajectoryId> trajectory_ids;  ///< to be in the batch
    std::vector<DroppedFromStep> dropped;
    double num_trajectories = 0;
  };
  using Then = std::function<void()>;

  Later<RunEnded> start_run(const StartRun&);
  void stop_run(const StopRun&);
  Later<TasksDone> run_tasks(const RunTasks& request);
  Later<WeightsShared> get_weights(const GetWeights& request);
  void look_for_progress(const LookForProgress&);

  [[nodiscard]] static double seconds(std::chrono::nanoseconds duration) {
    return std::chrono::duration<double>(duration).count();
  }

  /// `then` for an answer that is of no use once the run is over or has gone back: it is not called then.
  template <class F>
  [[nodiscard]] auto if_current(F then) const {
    return [this, recovery = recovery_, then = std::move(then)](const auto& answer) {
      if (!is_over_ && recovery == recovery_) {
        then(answer);
      }
    };
  }

  // coordinator_actor.cpp: the run as a whole
  Expected<void> load();
  Expected<void> open_directory();
  void begin_anew();
  void dispatch(std::vector<RunTask> tasks, const std::function<void(const Expected<TasksDone>&)>& then);
  void advance();
  void end_run();
  void finish(Verdict verdict);
  void fail_run(const std::string& what, const Error& error);
  void write_metrics(const std::map<std::string, double>& metrics);
  void write_summary();
  [[nodiscard]] bool is_out_of_time() const;

  // coordinator_steps.cpp: one step
  Expected<std::vector<RunTask>> training_tasks(std::int32_t step) const;
  void collect(std::int32_t step);
  void collected(std::int32_t step, const TasksDone& done);
  void close(std::int32_t step);
  void train(const StepClosed& closed);
  void trained(const std::shared_ptr<const StepBatch>& batch, const std::vector<StepTrained>& ranks);
  void record(const std::shared_ptr<const StepBatch>& batch, const StepTrained& report);
  void publish(const WeightsShared& weights, Then then);
  void published(const Expected<std::vector<WeightsLoaded>>& loaded, const WeightsShared& before, const Then& then);
  void step_done();
  void after_step();
  void mark(const std::string& phase);
  void add_load_metrics(std::map<std::string, double>& metrics, double step_s);
  [[nodiscard]] bool may_go_on(const StepTrained& report);
  void raise_alarms();

  // coordinator_checkpoint.cpp: between steps
  void evaluate(const EvaluationRequest& request, const std::string& moment, Then then);
  void note_evaluation(const EvaluationRequest& request, const std::string& moment, const EvaluationResult& result);
  void checkpoint(Then then);
  [[nodiscard]] bool is_due(std::int32_t every) const;

  // coordinator_recovery.cpp: the way back
  void watch_learners();
  void watch_align_pack();
  void watch_learner(const ActorRef& learner);
  void learner_lost(const std::string& reason);
  void learner_failed(const std::string& what, const Error& error);
  void restore_learners(const std::string& checkpoint, const Then& then);
  void go_back(const std::string& checkpoint, std::int64_t lineage, std::int32_t from_step);
  Expected<void> take_up(const RunState& state, bool is_rewound);
  void go_on();
  void share_weights(Then then);
  [[nodiscard]] ObjectRef new_collective(const std::string& reason);

  RoleInit init_;
  std::optional<Config> config_;
  std::chrono::milliseconds ask_timeout_{};
  std::unique_ptr<TaskSource> tasks_;
  std::unique_ptr<TaskDispatcher> dispatcher_;
  std::optional<RunDirectory> directory_;
  std::unique_ptr<MetricsWriter> writer_;
  std::optional<CheckpointKeeper> checkpoints_;
  std::optional<AlarmWatch> alarms_;
  std::optional<Promise<RunEnded>> ended_;
  std::optional<StepSchedule> schedule_;
  std::map<std::int32_t, Step> steps_;  ///< dispatched, not yet published
  Step current_;                        ///< the one being trained
  Summary summary_;
  std::int64_t lineage_ = 0;
  std::int64_t policy_version_ = 0;
  std::int64_t recovery_ = 0;  ///< how often the run has gone back; what was asked before is of no use
  WeightsShared published_;    ///< what students sample with, or are about to
  std::string went_back_to_;   ///< checkpoint; "" = the beginning
  std::int32_t num_recoveries_in_a_row_ = 0;
  std::chrono::nanoseconds run_began_{};
  std::chrono::nanoseconds last_step_done_{};
  std::chrono::nanoseconds last_progress_{};
  std::int64_t num_handled_ = 0;           ///< messages that the other actors have taken up
  std::map<std::string, double> busy_ms_;  ///< by group, when the last step was done
  double earlier_s_ = 0;                   ///< of the run's parts before a resume
  std::int32_t num_empty_steps_ = 0;
  bool is_between_steps_ = true;  ///< evaluating, checkpointing or starting
  bool is_stopping_ = false;
  bool is_over_ = false;
  bool is_wait_reported_ = false;
};

}  // namespace memopd

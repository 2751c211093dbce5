// coordinator: owns the schedule of a run. Collect, close the step, train, publish weights; evaluate and checkpoint at
// their times; end with a verdict and the first cause.
//
// One step of lag 0:  RunTask* -> CloseStep -> TrainStep (every rank) -> LoadWeights (every student) -> next step.
// RL-2  a trajectory ends trained, dropped(reason) or superseded, and the counts say so.
// RL-3  the next step is not dispatched before every student has acknowledged the new version.
// Also runs tasks for whoever asks (RunTasks): evaluation and demonstrations outside a run.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/evaluation.hpp"
#include "actors/messages.hpp"
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

class CoordinatorActor : public Actor {
 public:
  explicit CoordinatorActor(RoleInit init);

 protected:
  void setup() override;

 private:
  Later<RunEnded> start_run(const StartRun&);
  void stop_run(const StopRun&);
  Later<TasksDone> run_tasks(const RunTasks& request);

  Expected<void> load();
  Expected<std::vector<RunTask>> training_tasks(std::int32_t step) const;
  void evaluate(const EvaluationRequest& request, const std::string& moment, std::function<void()> then);
  void collect();
  void close(const TasksDone& collected);
  void train(const StepClosed& closed);
  void trained(const std::vector<StepTrained>& ranks);
  void publish(const ObjectRef& weights);
  void step_done();
  void checkpoint(std::function<void()> then);
  void finish(Verdict verdict);
  void fail_run(const std::string& what, const Error& error);
  void write_metrics(const std::map<std::string, double>& metrics);
  void write_summary();
  void mark(const std::string& phase);
  [[nodiscard]] bool check_alarms(const StepTrained& report);

  RoleInit init_;
  std::optional<Config> config_;
  std::chrono::milliseconds ask_timeout_{};
  std::unique_ptr<TaskSource> tasks_;
  std::unique_ptr<TaskDispatcher> dispatcher_;
  std::optional<RunDirectory> directory_;
  std::unique_ptr<MetricsWriter> writer_;
  std::optional<Promise<RunEnded>> ended_;
  Summary summary_;
  std::int32_t step_ = 0;
  std::int64_t policy_version_ = 0;
  std::map<std::string, double> step_metrics_;
  std::chrono::nanoseconds run_began_{};
  std::chrono::nanoseconds step_began_{};
  std::chrono::nanoseconds phase_began_{};
  std::int32_t num_empty_steps_ = 0;
  bool is_stopping_ = false;
  std::vector<std::filesystem::path> checkpoints_;
};

}  // namespace memopd

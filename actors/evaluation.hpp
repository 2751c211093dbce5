// Evaluation as data: which tasks, and what their outcomes amount to. No actor.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/messages.hpp"
#include "envs/environment.hpp"
#include "runtime/config/schema.hpp"
#include "runtime/telemetry/summary.hpp"

namespace memopd {

/// Who is evaluated and when; named in trajectory ids as `<prefix><split name>`.
struct EvaluationRequest {
  std::string student = "student";  ///< group
  std::string prefix;               ///< "" for the student, "teacher_" for the teacher
  std::int32_t step = 0;
  bool is_interval = false;  ///< only splits with at_intervals, at most eval.interval_tasks each
};

/// The tasks of every split of [eval], in order. The same for every run: seeds follow from the split alone, so that runs
/// are compared on the same tasks.
/// @error not_found  a split the source does not know
Expected<std::vector<RunTask>> evaluation_tasks(const EvalConfig& config, const TaskSource& source,
                                                const EvaluationRequest& request);

/// Means over the tasks of each split.
struct EvaluationResult {
  SummaryGroup summary;                   ///< split name -> F1 interval; `<name>_em` -> EM interval; `<name>_num_tasks`
  std::map<std::string, double> metrics;  ///< "eval/<name>/f1", em, is_valid, is_finished, turns, ..
};

EvaluationResult summarize(const EvalConfig& config, const EvaluationRequest& request,
                           const std::vector<TrajectoryDone>& done);

/// Mean of each metric and reward over trajectories whose status is trained, as "rollout/<name>"; and the share of each
/// status as "rollout/status/<name>".
std::map<std::string, double> rollout_metrics(const std::vector<TrajectoryDone>& done);

}  // namespace memopd

// A whole rollout side in virtual time: real env and align_pack actors around a scripted student, teacher, retriever and
// environment, so that tests say exactly what happens when.
//
// The student keeps a counter in its memory: `<think>n</think>` of call n, searches until call `num_searches`, then
// answers. The teacher answers with zero rows of width 1, `teacher_delay` later.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "actors/messages.hpp"
#include "envs/environment.hpp"
#include "runtime/actor/deterministic_cluster.hpp"
#include "runtime/config/schema.hpp"

namespace memopd::testing {

/// What the scripted environment does; a task names its behaviour in Task::extra.
///   ""        answers every search with "fact", ends with reward 1 and f1 1 at an answer
///   "throws"  throws std::runtime_error("disk on fire") in step
///   "fails_once"  reset fails the first time, then behaves
///   "silent"  its calls never come back
///   "unformatted"  leaves the form of documents to the protocol
///   "paid"    gives reward 0.25 for every search
struct ScriptedOptions {
  std::int32_t num_searches = 2;
  std::chrono::milliseconds student_delay{100};
  std::chrono::milliseconds teacher_delay{30};
  bool with_teacher = true;
  std::int32_t teacher_extra_rows = 0;    ///< rows too many: a broken teacher
  std::int32_t num_teacher_failures = 0;  ///< first requests that fail
};

/// What was seen, in order: "generate train.0.0.0/1 at 200", "score at 210", "trajectory ..".
struct SeenEvent {
  std::string what;
  std::int64_t time_ms = 0;
};

class ScriptedRun {
 public:
  explicit ScriptedRun(const ScriptedOptions& options, const Config& config = default_config());
  ~ScriptedRun();

  [[nodiscard]] static Config default_config();
  [[nodiscard]] static RunTask task(std::int32_t index, const std::string& behaviour = "");

  /// Asks the env actor; returns once it has answered.
  Expected<TrajectoryDone> run(RunTask task);
  [[nodiscard]] Future<TrajectoryDone> begin(RunTask task);
  Expected<StepClosed> close(std::vector<TrajectoryId> ids);
  [[nodiscard]] std::shared_ptr<const StepBatch> batch(const StepClosed& closed);

  [[nodiscard]] DeterministicCluster& cluster() { return *cluster_; }
  [[nodiscard]] static std::vector<SeenEvent>& seen();
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  std::unique_ptr<DeterministicCluster> cluster_;
  ActorRef env_;
  ActorRef align_pack_;
};

}  // namespace memopd::testing

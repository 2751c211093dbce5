// Tiny models and trajectories with rewritten contexts, for tests of policies/training.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "policies/training/learner.hpp"
#include "runtime/data/teacher_scores.hpp"
#include "runtime/data/trajectory.hpp"

namespace memopd::testing {

/// A folder of its own that disappears with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline constexpr std::int32_t kVocab = 23;

/// Saves a float64 decoder (2 layers, grouped-query attention) with `vocab_size` ids under `folder`.
void save_tiny_model(const std::filesystem::path& folder, std::uint64_t seed, std::int32_t vocab_size = kVocab,
                     std::int32_t width = 16);

/// A trajectory of `response_lengths.size()` calls: call j sees a question, all of the previous response, an observation;
/// with spans. Rollout log-probs are made up; sampled by version 0; rewards["final"] = reward.
Trajectory make_trajectory(std::int32_t task_index, const std::vector<std::int32_t>& response_lengths, double reward,
                           std::uint64_t seed = 1);

/// Teacher scores of every invocation of a step, and the lookup a learner reads them with.
struct ScoredStep {
  StepBatch batch;
  std::map<ObjectRef, std::shared_ptr<const TeacherScores>> objects;

  [[nodiscard]] ScoreLookup lookup() const;
  /// Replaces the object that holds one invocation's scores by a changed copy of it alone.
  TeacherScores& edit(std::size_t trajectory, std::size_t invocation);

 private:
  friend ScoredStep score_step(std::vector<Trajectory>, const std::filesystem::path&, std::int32_t);
  std::vector<std::shared_ptr<TeacherScores>> edited_;
};

/// Makes `version` the learner's at the start of the step and the one that sampled every token.
void set_version(ScoredStep& step, std::int64_t version);

/// Log-probs at `temperature` of the response tokens of `invocation`, alone in a forward pass in float64.
std::vector<double> log_probs_alone(const std::filesystem::path& model, const Invocation& invocation,
                                    double temperature = 1.0);

/// The persistent history of `trajectory` as one call: prompt = its question, response = everything after it.
/// @return  the call, and for each response token of the trajectory its index in the response
std::pair<Invocation, std::vector<std::size_t>> history_of(const Trajectory& trajectory);

/// One object per trajectory. An empty `teacher_folder` gives a step without scores.
ScoredStep score_step(std::vector<Trajectory> trajectories, const std::filesystem::path& teacher_folder,
                      std::int32_t scored_vocab = kVocab);

/// Three trajectories of 3, 1 and 4 calls.
std::vector<Trajectory> three_trajectories();

/// PPO and OPD at default strengths, one mini-batch of the whole step, float64, one thread.
LearnerSetup tiny_setup(const std::filesystem::path& student_folder, const std::filesystem::path& teacher_folder);

/// One learner in a group of one.
std::unique_ptr<Learner> make_learner(const LearnerSetup& setup);

/// Runs one step on `world_size` learners in threads of their own; results by rank.
struct RankResult {
  Expected<StepReport> report = unexpected(ErrorCode::internal, "not run");
  WeightSet weights;
};
std::vector<RankResult> step_on_ranks(LearnerSetup setup, int world_size, const ScoredStep& step);
/// The same with a step that `prepare` makes, on each rank's thread, from its learner.
std::vector<RankResult> step_on_ranks(LearnerSetup setup, int world_size,
                                      const std::function<ScoredStep(Learner&)>& prepare);

/// Largest absolute difference over all tensors; float64 only.
double max_difference(const WeightSet& a, const WeightSet& b);
/// Whether all bytes are equal.
bool same_bits(const WeightSet& a, const WeightSet& b);

/// A student and a teacher on disk, and three_trajectories() scored by the teacher.
struct World {
  World();
  [[nodiscard]] LearnerSetup setup() const { return tiny_setup(student, teacher); }

  TemporaryFolder folder;
  std::filesystem::path student = folder.path() / "student";
  std::filesystem::path teacher = folder.path() / "teacher";
  ScoredStep step;
};

/// One step that must succeed.
StepReport run_step(Learner& learner, const ScoredStep& step);

}  // namespace memopd::testing

// The learner turns one closed step into optimizer steps: PPO with a critic across invocations plus distillation from
// the teacher's full distribution, on call-local states rebuilt from the recorded ids.
//
// Order of one step, the same on every rank
//   1 select   trajectories with a trained status, at least one response token, no token older than max_policy_lag and
//              all their teacher scores; the rest is dropped with a reason and counted
//   2 cut      one shuffle of the selection by (seed, step); mini-batches of learner.mini_batch_trajectories are cut in
//              that order (the last may be smaller); rank r takes places r, r + W, .. of each; its share is split over
//              the threads by tokens and packed. Epochs visit the same mini-batches in the same order
//   3 look     old log-probs, reference log-probs and values of every response token, once, with the packs and the code
//              of the updates
//   4 credit   rewards less the reference penalty; GAE per trajectory, or groups of samples (ppo.estimator); whitened once
//              over the rows of all ranks (never with "grpo"); with max_policy_lag > 0 the PPO term of a token is weighted
//              by min(exp(old - rollout log-prob), ppo.max_rollout_weight)
//   5 update   per mini-batch: gradients summed in micro-batch order, over ranks, clipped, AdamW
//
// AP-4 credit   losses, entropy, divergence and whitening read response rows only
// AP-6 digest   what each pack feeds is hashed and compared with what engine and teacher hashed; a mismatch is an error
//               where opd.state and learner.state are "aligned", else only counted (align/checked, align/mismatch)
// RL-3 lag      lag of a trajectory = batch.policy_version - the oldest version of its tokens; above max_policy_lag it is
//               dropped "stale"
// RL-4 horizon  GAE runs over a trajectory's response tokens in time order, across invocations
// RL-5 mean     one denominator: the response tokens of the optimizer step over all ranks; excluded rows stay in it
//
// An excluded row has an invalid or non-finite teacher row, or a non-finite old log-prob, value, advantage or return
// (reference or rollout log-prob where they are used). It enters no loss and no whitening, and is counted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/collective/collective.hpp"
#include "runtime/config/schema.hpp"
#include "runtime/data/teacher_scores.hpp"
#include "runtime/data/tensor.hpp"

namespace memopd {

/// Finds the scores an ObjectRef names; called by one thread at a time. An error drops the trajectory
/// teacher_unavailable.
using ScoreLookup = std::function<Expected<std::shared_ptr<const TeacherScores>>(const ObjectRef&)>;

struct LearnerSetup {
  std::filesystem::path student_folder;      ///< Hugging Face folder the policy starts from
  std::filesystem::path teacher_folder;      ///< its head is read; needed iff opd.coef > 0
  std::filesystem::path reference_folder{};  ///< read iff ppo.reference_kl_coef > 0; "" = student_folder
  PpoConfig ppo;
  OpdConfig opd;
  OptimizerConfig optimizer;
  CriticConfig critic;
  LearnerConfig learner;
  PackConfig pack;
  double sampling_temperature = 1.0;     ///< of log-probs, ratio and entropy; > 0
  std::int64_t num_optimizer_steps = 0;  ///< of the whole run, for the schedule: planned_optimizer_steps(); >= 1
  std::uint64_t seed = 0;                ///< run.seed
  std::int32_t scored_vocab = 0;         ///< ids [0, scored_vocab) are the support; 0 = the smaller model's vocabulary
  DType dtype = DType::float32;          ///< float32 | float64
  std::int32_t max_policy_lag = 0;       ///< versions; >= 0
  bool is_deterministic = false;         ///< run.deterministic: a row's bits do not depend on its neighbours
};

/// Optimizer steps of a run whose trajectories are all trained on.
[[nodiscard]] std::int64_t planned_optimizer_steps(const LearnerConfig& learner, std::int32_t num_steps,
                                                   std::int32_t num_samples);

/// A trajectory that was not trained on and why: a status name ("stale", "teacher_unavailable" among them) or "empty".
struct DroppedTrajectory {
  TrajectoryId id;
  std::int32_t attempt = 0;
  std::string reason;
};

struct StepReport {
  std::int64_t policy_version = 0;         ///< after the step; grows by one iff an optimizer step was made
  std::int32_t num_optimizer_steps = 0;    ///< made in this step; skipped ones not counted
  std::int32_t skipped_updates = 0;        ///< left out for a non-finite gradient
  std::int32_t max_skipped_in_a_row = 0;   ///< longest run of them, counted across steps
  std::int32_t num_trained = 0;            ///< trajectories over all ranks
  std::vector<DroppedTrajectory> dropped;  ///< in id order; the same on every rank
  std::map<std::string, double> metrics;   ///< over all ranks; README.md lists the names
};

/// One rank of the learner. Not thread-safe: one caller at a time; it uses learner.num_threads threads of its own.
/// Every rank makes the same calls with the same batch; a rank without work in a mini-batch still takes part.
class Learner {
 public:
  /// @param collective  this rank's; world_size() = learner.num_ranks
  /// @error config_error, invalid_argument  contradictory settings: neither loss, no teacher for opd.coef > 0, ..
  /// @error not_found, shape_mismatch, ..   what loading the folders says
  static Expected<std::unique_ptr<Learner>> create(const LearnerSetup& setup, std::shared_ptr<Collective> collective);
  virtual ~Learner() = default;

  /// Trains on one step; `batch` is the whole step, not a share.
  /// @error row_count_mismatch   scores with another number of rows than the invocation's response tokens; named
  /// @error invalid_argument     scores for another head than the teacher's, a batch of another policy_version, an id
  ///                             outside the vocabulary, a token of a later policy_version
  /// @error shape_mismatch       scores of another width or type than the head's
  /// @error digest_mismatch      in the aligned state: an invocation that engine, teacher and learner were not all fed
  ///                             alike; names it and who disagrees
  /// @error invocation_too_long  an invocation above pack.max_tokens, or a history in state "persistent_history"
  /// After an error nothing was updated, unless a collective failed.
  virtual Expected<StepReport> step(const StepBatch& batch, const ScoreLookup& lookup) = 0;

  /// Complete copy of the policy; lineage as of the last batch. O(parameters).
  [[nodiscard]] virtual WeightSet weights() const = 0;

  /// Writes `folder`/{policy, critic, optimizer.safetensors, state.json}; complete or absent (by rename). Rank 0 only.
  /// @param run_state  a JSON object of the caller's, kept in state.json as "run"
  /// @error already_exists, io_error; parse_error: `run_state` is no JSON
  virtual Expected<void> save_checkpoint(const std::filesystem::path& folder,
                                         const std::string& run_state = "{}") const = 0;

  /// Restores weights, moments, schedule, version: the next step() gives the bits of an uninterrupted learner.
  /// @error not_found, parse_error, shape_mismatch; the learner is unchanged then
  virtual Expected<void> load_checkpoint(const std::filesystem::path& folder) = 0;

  [[nodiscard]] virtual std::int64_t policy_version() const = 0;
};

}  // namespace memopd

// Which trajectories of a step are trained on, and how they are cut: decided alike on every rank, without tensors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policies/training/learner.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/data/teacher_scores.hpp"

namespace memopd {

struct SelectionRules {
  bool needs_scores = false;           ///< opd.coef > 0
  std::uint64_t head_fingerprint = 0;  ///< of the teacher's head, over scored_vocab rows
  std::int32_t scored_vocab = 0;       ///< response ids lie below it
  std::int32_t vocab_size = 0;         ///< prompt ids lie below it
  std::int32_t max_tokens = 0;         ///< prompt + response of one invocation, or a history if flat
  bool is_flat = false;                ///< learner.state "persistent_history"
  std::int64_t max_policy_lag = 0;     ///< versions
  bool needs_rollout = false;          ///< rollout log-probs of every token
};

/// The oldest policy_version among the response tokens of a trajectory that has some.
[[nodiscard]] std::int64_t oldest_version(const Trajectory& trajectory);

/// Whether this invocation can be trained on under `rules`.
/// @error invocation_too_long, invalid_argument  as select_trajectories
Expected<void> check_invocation(const Invocation& invocation, const SelectionRules& rules);

/// Places of `batch.trajectories`, with the reference to each invocation's scores (null: no response token, or no
/// scores needed).
struct Selection {
  struct Item {
    std::size_t trajectory = 0;
    std::vector<const ScoreRef*> scores;  ///< [invocations]
  };
  std::vector<Item> items;                 ///< in batch order
  std::vector<DroppedTrajectory> dropped;  ///< in batch order
};

/// Status rule of TrajectoryStatus, then "empty", then "stale" (older than batch.policy_version - max_policy_lag), then
/// "teacher_unavailable".
/// @error row_count_mismatch  a ScoreRef with another number of rows than the invocation's response tokens
/// @error invalid_argument    a ScoreRef of another head, an id outside its vocabulary, tokens without a version or of one
///                            after the batch's, or without a rollout log-prob where it is needed; names the invocation
/// @error invocation_too_long above max_tokens
Expected<Selection> select_trajectories(const StepBatch& batch, const SelectionRules& rules);

/// Indices [0, count) in the order of one shuffle by (seed, step), `size` at a time; the last part may be smaller.
[[nodiscard]] std::vector<std::vector<std::size_t>> cut_mini_batches(std::size_t count, std::int32_t size,
                                                                     std::uint64_t seed, std::int32_t step);

/// Splits items of `num_tokens` each into at most `num_groups` groups of about equal tokens: longest first to the
/// lightest group; every group in item order, groups in order of their first item, none empty. O(n log n).
[[nodiscard]] std::vector<std::vector<std::size_t>> split_by_tokens(std::span<const std::int64_t> num_tokens,
                                                                    std::int32_t num_groups);

/// "trajectory train.0.3.0, invocation 2", for messages.
[[nodiscard]] std::string name_of(const Invocation& invocation);

}  // namespace memopd

// Credit for response tokens: per-token rewards; GAE across the invocations of a trajectory, or one advantage per
// trajectory from the other samples of its task; whitening over a step.
//
// Every array here holds response tokens only, in time order over all invocations of one trajectory; what the
// environment wrote has no place in it, so it can neither decay a reward nor leak a value (RL-4).
// Sources: Schulman et al., High-Dimensional Continuous Control Using Generalized Advantage Estimation (2016); Shao et
// al., DeepSeekMath (2024) for GRPO; Ahmadian et al., Back to Basics (2024) for RLOO.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/collective/collective.hpp"
#include "runtime/data/trajectory.hpp"

namespace memopd {

/// [response tokens] A per-turn reward lies on the last response token of its invocation (of the nearest earlier one
/// with a response, if it has none), rewards["final"] on the last response token of the trajectory; 0 elsewhere.
[[nodiscard]] std::vector<double> token_rewards(const Trajectory& trajectory);

/// A_t = sum_k (gamma lambda)^k delta_{t+k}, delta_t = r_t + gamma V_{t+1} - V_t, V after the last token = 0.
/// returns = advantages + values. All spans have one length; gamma, lambda in [0, 1]. O(n).
void gae(std::span<const double> rewards, std::span<const double> values, double gamma, double lambda,
         std::span<double> advantages, std::span<double> returns);

enum class Estimator : std::uint8_t {
  gae,   ///< per token, with a critic
  grpo,  ///< (G - mean) / (std + 1e-6) over the samples of a task; std divides by n - 1, as verl does (TRL adds 1e-4)
  rloo,  ///< G - mean of the other samples
};

/// @error invalid_argument  another name than "gae", "grpo", "rloo"
Expected<Estimator> parse_estimator(std::string_view name);

struct GroupAdvantages {
  std::vector<double> advantages;      ///< one per trajectory, for each of its response tokens
  std::int64_t num_single_groups = 0;  ///< groups of one: nothing to compare with, advantage 0
};

/// @param ids        [n] a group is what shares (split, step, task_index)
/// @param returns    [n] sum of all rewards of a trajectory; one that is not finite is in no group and has a NaN advantage
/// @param estimator  grpo | rloo
[[nodiscard]] GroupAdvantages group_advantages(std::span<const TrajectoryId> ids, std::span<const double> returns,
                                               Estimator estimator);

/// (A - mean) / sqrt(var + 1e-8) over the included rows of all ranks; var = mean squared deviation. Others become 0.
/// Does nothing to values when no rank includes a row. Every rank must call it.
/// @param is_included  [n] 0 or 1, as long as `advantages`
/// @error what the collective says
Expected<void> whiten(std::span<double> advantages, std::span<const std::uint8_t> is_included, Collective& collective);

}  // namespace memopd

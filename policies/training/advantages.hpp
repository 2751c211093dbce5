// Credit for response tokens: per-token rewards, GAE across the invocations of a trajectory, whitening over a step.
//
// Every array here holds response tokens only, in time order over all invocations of one trajectory; what the
// environment wrote has no place in it, so it can neither decay a reward nor leak a value (RL-4).
// Source: Schulman et al., High-Dimensional Continuous Control Using Generalized Advantage Estimation (2016).
#pragma once

#include <cstdint>
#include <span>
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

/// (A - mean) / sqrt(var + 1e-8) over the included rows of all ranks; var = mean squared deviation. Others become 0.
/// Does nothing to values when no rank includes a row. Every rank must call it.
/// @param is_included  [n] 0 or 1, as long as `advantages`
/// @error what the collective says
Expected<void> whiten(std::span<double> advantages, std::span<const std::uint8_t> is_included, Collective& collective);

}  // namespace memopd

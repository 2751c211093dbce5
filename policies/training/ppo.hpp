// Proximal policy optimisation, one response token at a time; whoever sums applies the denominator.
//
//   loss   max(-A rho, -A clip(rho, 1 - e, 1 + e)),  rho = exp(log_prob - old_log_prob)
//   dual   for A < 0 at most -A c
//   lag    with max_policy_lag > 0 the loss of a token is weighted by min(exp(old_log_prob - rollout_log_prob), w_max)
//   value  0.5 max((V - G)^2, (clip(V) - G)^2),      clip(V) = V_old + clip(V - V_old, -c, c)
//
// Sources: Schulman et al., Proximal Policy Optimization Algorithms (2017); Ye et al. (2020) for the dual clip; Hilton et
// al., Batch size-invariance for policy optimization (2021) for the decoupled weight.
#pragma once

#include <algorithm>
#include <cmath>

#include "runtime/config/schema.hpp"

namespace memopd {

/// Bound of |log_prob - old_log_prob|, nats: exp stays finite, and beyond it there is no gradient.
inline constexpr double kMaxLogRatio = 20.0;

struct PpoTerm {
  double loss = 0;
  double d_log_prob = 0;    ///< derivative of loss
  double ratio = 1;         ///< rho
  bool is_clipped = false;  ///< a clip decided: no gradient
};

[[nodiscard]] inline PpoTerm ppo_term(double log_prob, double old_log_prob, double advantage, const PpoConfig& ppo) {
  const double log_ratio = log_prob - old_log_prob;
  const double ratio = std::exp(std::clamp(log_ratio, -kMaxLogRatio, kMaxLogRatio));
  const double plain = -advantage * ratio;
  const double clipped = -advantage * std::clamp(ratio, 1.0 - ppo.clip, 1.0 + ppo.clip);
  PpoTerm term{.loss = std::max(plain, clipped), .d_log_prob = plain, .ratio = ratio, .is_clipped = clipped > plain};
  if (ppo.dual_clip > 0 && advantage < 0 && term.loss > -advantage * ppo.dual_clip) {
    term.loss = -advantage * ppo.dual_clip;
    term.is_clipped = true;
  }
  if (term.is_clipped || std::abs(log_ratio) > kMaxLogRatio) {
    term.d_log_prob = 0;
  }
  return term;
}

/// How much likelier the old policy, from which the ratio starts, finds a token than the one that sampled it: in (0,
/// ppo.max_rollout_weight].
[[nodiscard]] inline double rollout_weight(double old_log_prob, double rollout_log_prob, const PpoConfig& ppo) {
  const double log_ratio = std::clamp(old_log_prob - rollout_log_prob, -kMaxLogRatio, kMaxLogRatio);
  return std::min(std::exp(log_ratio), ppo.max_rollout_weight);
}

struct ValueTerm {
  double loss = 0;
  double d_value = 0;  ///< derivative of loss
};

/// @param value_clip  >= 0; 0 = off
[[nodiscard]] inline ValueTerm value_term(double value, double old_value, double target, double value_clip) {
  const double error = value - target;
  ValueTerm term{.loss = 0.5 * error * error, .d_value = error};
  if (value_clip <= 0) {
    return term;
  }
  const double moved = std::clamp(value - old_value, -value_clip, value_clip);
  const double clipped_error = old_value + moved - target;
  if (clipped_error * clipped_error > error * error) {
    term = {.loss = 0.5 * clipped_error * clipped_error,
            .d_value = std::abs(value - old_value) < value_clip ? clipped_error : 0.0};
  }
  return term;
}

}  // namespace memopd

// The learning rate of optimizer step k of n: warm-up times decay.
//
//   warm-up  min(1, (k + 1) / warmup_steps)
//   decay    constant 1; linear 1 - (1 - f) k/n; cosine f + (1 - f) (1 + cos(pi k/n)) / 2;  f = min_lr_frac
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "runtime/config/schema.hpp"

namespace memopd {

/// @param step  0-based optimizer step; beyond num_steps the rate stays where the schedule ended
[[nodiscard]] inline double learning_rate(const OptimizerConfig& optimizer, std::int64_t step, std::int64_t num_steps) {
  const double warmup =
      optimizer.warmup_steps > 0 ? std::min(1.0, static_cast<double>(step + 1) / optimizer.warmup_steps) : 1.0;
  const double progress =
      num_steps > 0 ? std::min(1.0, static_cast<double>(step) / static_cast<double>(num_steps)) : 1.0;
  const double floor = optimizer.min_lr_frac;
  double decay = 1.0;
  if (optimizer.schedule == "linear") {
    decay = 1.0 - (1.0 - floor) * progress;
  } else if (optimizer.schedule == "cosine") {
    decay = floor + (1.0 - floor) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  }
  return optimizer.lr * warmup * decay;
}

}  // namespace memopd

// The name of one attempt-independent trajectory, and the seeds that follow from it.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/expected.hpp"

namespace memopd {

/// Ordered lexicographically; printed and parsed as `train.12.3.0`.
struct TrajectoryId {
  std::string split;            ///< "train", "val", ..; no dot, not empty
  std::int32_t step = 0;        ///< the step that dispatched it; >= 0
  std::int32_t task_index = 0;  ///< index of the task within that step; >= 0
  std::int32_t sample = 0;      ///< index among the samples of one task; >= 0

  friend auto operator<=>(const TrajectoryId&, const TrajectoryId&) = default;
};

[[nodiscard]] std::string to_string(const TrajectoryId& id);

/// @error parse_error  anything but `split.step.task_index.sample`
[[nodiscard]] Expected<TrajectoryId> parse_trajectory_id(std::string_view text);

/// Seed of everything random in this trajectory: a splitmix64 chain over `run_seed` and the four fields.
/// Never of a slot, an attempt or an incarnation: a repeated attempt draws the same noise.
[[nodiscard]] std::uint64_t trajectory_seed(std::uint64_t run_seed, const TrajectoryId& id);

/// Seed of one invocation; noise of token t = philox_uniform(invocation seed, t).
[[nodiscard]] std::uint64_t invocation_seed(std::uint64_t trajectory_seed, std::int32_t invocation_index);

}  // namespace memopd

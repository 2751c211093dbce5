// One attempt at a task: ordered invocations, how it ended, what it was worth.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/invocation.hpp"
#include "runtime/data/trajectory_id.hpp"

namespace memopd {

enum class TrajectoryStatus : std::uint8_t {
  completed,            ///< answered
  invalid_action,       ///< no search or answer found; final reward 0
  turn_limit,           ///< searched on the last allowed turn; final reward 0
  context_limit,        ///< the next prompt would exceed the limit; final reward 0
  env_failed,           ///< environment or tool failed after retries; dropped
  timeout,              ///< a call never returned; dropped
  aborted,              ///< the run gave it up; dropped
  stale,                ///< older than max_policy_lag; dropped
  teacher_unavailable,  ///< no teacher rows; dropped, never trained with PPO alone
};

[[nodiscard]] std::string_view to_string(TrajectoryStatus status);

/// Whether trajectories of this status are trained on (a trajectory without response tokens is dropped all the same).
[[nodiscard]] bool is_trained(TrajectoryStatus status);

struct Trajectory {
  TrajectoryId id;
  std::int32_t attempt = 0;
  std::string task_id;
  std::string env;
  std::vector<Invocation> invocations;  ///< in call order; invocation_index = position
  TrajectoryStatus status = TrajectoryStatus::completed;
  std::map<std::string, double> rewards;  ///< by name; "final" is the one trained on, scaled by [reward] scale
  std::string answer;                     ///< text of the final answer, empty if none
  std::map<std::string, double> metrics;  ///< em, f1, turns, peak_context_tokens, ..
};

/// Response tokens over all invocations.
[[nodiscard]] std::int64_t num_response_tokens(const Trajectory& trajectory);

}  // namespace memopd

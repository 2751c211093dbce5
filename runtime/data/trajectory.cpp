#include "runtime/data/trajectory.hpp"

namespace memopd {

std::string_view to_string(TrajectoryStatus status) {
  switch (status) {
    case TrajectoryStatus::completed:
      return "completed";
    case TrajectoryStatus::invalid_action:
      return "invalid_action";
    case TrajectoryStatus::turn_limit:
      return "turn_limit";
    case TrajectoryStatus::context_limit:
      return "context_limit";
    case TrajectoryStatus::env_failed:
      return "env_failed";
    case TrajectoryStatus::timeout:
      return "timeout";
    case TrajectoryStatus::aborted:
      return "aborted";
    case TrajectoryStatus::stale:
      return "stale";
    case TrajectoryStatus::teacher_unavailable:
      return "teacher_unavailable";
  }
  return "unknown";
}

bool is_trained(TrajectoryStatus status) { return status <= TrajectoryStatus::context_limit; }

std::int64_t num_response_tokens(const Trajectory& trajectory) {
  std::int64_t count = 0;
  for (const Invocation& invocation : trajectory.invocations) {
    count += static_cast<std::int64_t>(invocation.response_token_ids.size());
  }
  return count;
}

}  // namespace memopd

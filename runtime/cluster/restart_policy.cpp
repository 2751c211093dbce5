#include "runtime/cluster/restart_policy.hpp"

#include <algorithm>

namespace memopd {

std::optional<std::chrono::milliseconds> RestartTracker::ended(std::chrono::nanoseconds now) {
  while (!recent_.empty() && now - recent_.front() > policy_.window) {
    recent_.pop_front();
  }
  if (static_cast<std::int32_t>(recent_.size()) >= policy_.max_restarts) {
    return std::nullopt;
  }
  auto delay = policy_.backoff;
  for (std::size_t i = 0; i < recent_.size() && delay < kMaxBackoff; ++i) {
    delay *= 2;
  }
  recent_.push_back(now);
  ++num_restarts_;
  return std::min(delay, kMaxBackoff);
}

}  // namespace memopd

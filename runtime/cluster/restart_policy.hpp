// RestartPolicy: how often a process that ended may be started again, and how soon.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

namespace memopd {

struct RestartPolicy {
  std::int32_t max_restarts = 5;             ///< within `window`; one more is a storm; 0 = never restarted
  std::chrono::milliseconds window{60'000};  ///< > 0
  std::chrono::milliseconds backoff{
      100};  ///< before the first restart in a window; doubled by each, at most kMaxBackoff
};

inline constexpr std::chrono::milliseconds kMaxBackoff{10'000};

/// Of one process. Not thread-safe; time is the caller's.
class RestartTracker {
 public:
  explicit RestartTracker(RestartPolicy policy) : policy_(policy) {}

  /// The process ended at `now` without being asked to.
  /// @return how long to wait before it is started again; nothing: it has ended for good
  std::optional<std::chrono::milliseconds> ended(std::chrono::nanoseconds now);

  [[nodiscard]] std::int32_t num_restarts() const { return num_restarts_; }  ///< ever
  [[nodiscard]] const RestartPolicy& policy() const { return policy_; }

 private:
  RestartPolicy policy_;
  std::deque<std::chrono::nanoseconds> recent_;  ///< restarts within the window
  std::int32_t num_restarts_ = 0;
};

}  // namespace memopd

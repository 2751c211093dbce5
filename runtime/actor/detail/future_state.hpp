// FutureState: the answer to an ask from outside the actors, and who makes time pass while one waits for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/actor/detail/envelope.hpp"

namespace memopd::detail {

/// A clock that passes only when somebody drives it.
class VirtualTime {
 public:
  virtual ~VirtualTime() = default;
  [[nodiscard]] virtual std::chrono::nanoseconds virtual_now() const = 0;
  /// Handles the next event due at or before `limit`; without one the clock moves to `limit` and false is returned.
  virtual bool step(std::chrono::nanoseconds limit) = 0;
};

/// Outlives its cluster; `time` is null afterwards.
struct VirtualTimeLink {
  VirtualTime* time = nullptr;
};

/// Counts the futures of one wait that became ready.
struct FutureWaiter {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t num_completed = 0;
};

/// Thread-safe.
class FutureState final : public AnswerSink {
 public:
  /// `deadline` on the steady clock, or in virtual time with a link.
  FutureState(std::string what, std::chrono::nanoseconds deadline, std::chrono::milliseconds allowed,
              std::shared_ptr<VirtualTimeLink> link)
      : what_(std::move(what)), deadline_(deadline), allowed_(allowed), link_(std::move(link)) {}

  void deliver(std::uint64_t id, Answer answer) override;
  [[nodiscard]] const std::string& sink_name() const override;

  [[nodiscard]] bool is_ready() const;
  /// Completes with timeout if `now` has reached the deadline.
  void expire(std::chrono::nanoseconds now);
  void add_waiter(const std::shared_ptr<FutureWaiter>& waiter);
  [[nodiscard]] Answer take();
  [[nodiscard]] std::chrono::nanoseconds deadline() const { return deadline_; }
  [[nodiscard]] const std::shared_ptr<VirtualTimeLink>& link() const { return link_; }

 private:
  const std::string what_;
  const std::chrono::nanoseconds deadline_;
  const std::chrono::milliseconds allowed_;
  const std::shared_ptr<VirtualTimeLink> link_;

  mutable std::mutex mutex_;
  std::optional<Answer> answer_;
  bool is_taken_ = false;
  std::vector<std::weak_ptr<FutureWaiter>> waiters_;
};

}  // namespace memopd::detail

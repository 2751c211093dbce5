// Future: the answer to an ask from outside the actors.
//
// Always completes: with the answer, or with timeout at its deadline. get() and wait() inside an actor are bugs
// (MEMOPD_CHECK): an actor continues with Later::then. On a DeterministicCluster waiting runs the scheduler.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/actor/detail/answer.hpp"

namespace memopd {

namespace detail {

class FutureState;
/// Blocks until `wanted` of `states` are ready or `limit` (if any) has passed. @return indices of the ready ones
std::vector<std::size_t> wait_ready(std::span<const std::shared_ptr<FutureState>> states, std::size_t wanted,
                                    const std::chrono::milliseconds* limit);
/// Takes the answer; waits for it first. The second call is a bug (MEMOPD_CHECK).
Answer take_answer(FutureState& state);

}  // namespace detail

/// Movable and copyable (copies share the answer, which is taken once). Not thread-safe.
template <class R>
class Future {
 public:
  explicit Future(std::shared_ptr<detail::FutureState> state) : state_(std::move(state)) {}

  /// Blocks until the answer or the deadline. Once (MEMOPD_CHECK).
  /// @error timeout, target_down, refused, bad_schema, overloaded, internal, and whatever the handler returns
  [[nodiscard]] Expected<R> get() { return detail::from_answer<R>(detail::take_answer(*state_)); }
  /// True if the answer is there after at most `limit`.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds limit) {
    return !detail::wait_ready({&state_, 1}, 1, &limit).empty();
  }

  [[nodiscard]] const std::shared_ptr<detail::FutureState>& state() const { return state_; }

 private:
  std::shared_ptr<detail::FutureState> state_;
};

/// Blocks until at least `count` of `futures` (at most all of them) have an answer.
/// @return the indices of all that have one, ascending
template <class R>
[[nodiscard]] std::vector<std::size_t> wait(std::span<const Future<R>> futures, std::size_t count) {
  std::vector<std::shared_ptr<detail::FutureState>> states;
  states.reserve(futures.size());
  for (const auto& future : futures) {
    states.push_back(future.state());
  }
  return detail::wait_ready(states, count, nullptr);
}
template <class R>
[[nodiscard]] std::vector<std::size_t> wait(const std::vector<Future<R>>& futures, std::size_t count) {
  return wait(std::span<const Future<R>>(futures), count);
}

}  // namespace memopd

// Later and Promise: answers that are not there yet, inside an actor.
//
// A continuation runs on the actor that made it, one at a time with its handlers, never inside the handler or the
// deliver() that completes it; other messages are handled while a Later is pending. It runs exactly once with a value or an
// Error, or not at all if the actor ends first. One that throws ends the actor like a handler that throws.
// Outside an actor continuations run at once, on the calling thread.
#pragma once

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "runtime/actor/detail/later_state.hpp"
#include "runtime/base/expected.hpp"

namespace memopd {

/// A value of R, or an Error, later. Belongs to one actor. Copies share the value and its one continuation.
template <class R>
class Later {
 public:
  using value_type = R;
  using State = detail::LaterState<R>;

  explicit Later(std::shared_ptr<State> state) : state_(std::move(state)) {}
  /// So that a handler which returns Later may `return unexpected(..)`.
  Later(Unexpected failure) : Later(ready(Expected<R>(std::move(failure)))) {}

  /// Already there.
  [[nodiscard]] static Later ready(Expected<R> result) {
    auto state = std::make_shared<State>();
    state->complete(std::move(result));
    return Later(std::move(state));
  }

  /// Continues with `f(Expected<R>)` (by value, const& or &&). f returns Expected<X>, Later<X>, X or nothing.
  /// @return Later<X> of what f returns; Later<void> for nothing. May be ignored.
  template <class F>
  auto then(F f) {
    using Out = std::invoke_result_t<F&, Expected<R>>;
    using Value = detail::continued_value_t<Out>;
    auto next = std::make_shared<detail::LaterState<Value>>();
    state_->attach([f = std::move(f), next](Expected<R> result) mutable {
      detail::continue_with<Out>(*next, [&]() -> Out { return f(std::move(result)); });
    });
    return Later<Value>(std::move(next));
  }

  [[nodiscard]] const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

/// The other end of a Later. Movable. Dropped without deliver(): the Later gets `refused: promise dropped`.
/// deliver() may be called from any thread while the actor lives: the value is handed to the actor that made the Promise.
template <class R>
class Promise {
 public:
  Promise() : state_(std::make_shared<detail::LaterState<R>>()), owner_(detail::current_context()) {}
  Promise(Promise&&) noexcept = default;
  Promise& operator=(Promise&& other) noexcept {
    drop();
    state_ = std::move(other.state_);
    owner_ = std::move(other.owner_);
    return *this;
  }
  Promise(const Promise&) = delete;
  Promise& operator=(const Promise&) = delete;
  ~Promise() { drop(); }

  [[nodiscard]] Later<R> later() const { return Later<R>(state_); }

  /// The first call counts; the promise is empty afterwards and later calls do nothing.
  void deliver(Expected<R> result) {
    if (const auto state = std::exchange(state_, nullptr)) {
      detail::run_in(owner_, [state, result = std::move(result)]() mutable { state->complete(std::move(result)); });
    }
  }

  /// True until deliver().
  explicit operator bool() const { return state_ != nullptr; }

 private:
  void drop() { deliver(unexpected(ErrorCode::refused, "promise dropped")); }

  std::shared_ptr<detail::LaterState<R>> state_;
  detail::Context owner_;
};

}  // namespace memopd

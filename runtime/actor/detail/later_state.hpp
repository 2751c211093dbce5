// LaterState: the value behind Later and Promise. Used by one actor only, hence no lock.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "runtime/actor/detail/task.hpp"
#include "runtime/base/expected.hpp"

namespace memopd {

template <class R>
class Later;

namespace detail {

template <class R>
class LaterState : public std::enable_shared_from_this<LaterState<R>> {
 public:
  using Continuation = Callback<Expected<R>>;

  /// The first call counts.
  void complete(Expected<R> result) {
    if (is_complete_) {
      return;
    }
    is_complete_ = true;
    result_.emplace(std::move(result));
    if (continuation_) {
      schedule();
    }
  }

  /// One continuation (MEMOPD_CHECK); it runs after the current handler.
  void attach(Continuation continuation) {
    MEMOPD_CHECK(!was_attached_, "a Later takes one continuation: chain them with then().then()");
    was_attached_ = true;
    continuation_ = std::move(continuation);
    if (is_complete_) {
      schedule();
    }
  }

 private:
  void schedule() {
    defer([self = this->shared_from_this()] {
      auto continuation = std::move(self->continuation_);
      auto result = *std::move(self->result_);
      self->result_.reset();
      continuation(std::move(result));
    });
  }

  std::optional<Expected<R>> result_;
  Continuation continuation_;
  bool is_complete_ = false;
  bool was_attached_ = false;
};

template <class T>
struct ContinuedValue {
  using type = T;
};
template <class T>
struct ContinuedValue<Expected<T>> {
  using type = T;
};
template <class T>
struct ContinuedValue<Later<T>> {
  using type = T;
};
template <class T>
using continued_value_t = typename ContinuedValue<std::remove_cvref_t<T>>::type;

template <class T>
inline constexpr bool is_later = false;
template <class T>
inline constexpr bool is_later<Later<T>> = true;

/// Completes `next` with what `f` returns; an exception becomes `internal` there and ends the current actor.
template <class Out, class Value, class F>
void continue_with(LaterState<Value>& next, F&& f) {
  try {
    if constexpr (std::is_void_v<Out>) {
      f();
      next.complete(Expected<void>());
    } else if constexpr (is_later<std::remove_cvref_t<Out>>) {
      f().state()->attach(
          [keep = next.shared_from_this()](Expected<Value> result) { keep->complete(std::move(result)); });
    } else {
      next.complete(f());
    }
  } catch (const std::exception& exception) {
    next.complete(unexpected(ErrorCode::internal, exception.what()));
    handler_threw(exception.what());
  } catch (...) {
    next.complete(unexpected(ErrorCode::internal, "exception of unknown type"));
    handler_threw("exception of unknown type");
  }
}

}  // namespace detail
}  // namespace memopd

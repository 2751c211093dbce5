// Expected<T>: a value or an Error, for everything that can go wrong in correct code.
//
// The names are std::expected's, so that a later move to C++23 is a change of alias. Exceptions never cross a folder:
// whoever owns a third-party library catches what it throws and returns an Error.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "runtime/base/check.hpp"
#include "runtime/base/error.hpp"

namespace memopd {

/// Wraps an Error on its way into an Expected: `return unexpected(ErrorCode::not_found, "no task 7")`.
struct Unexpected {
  Error error;
};

[[nodiscard]] inline Unexpected unexpected(Error error) { return {std::move(error)}; }
[[nodiscard]] inline Unexpected unexpected(ErrorCode code, std::string message) {
  return {Error{code, std::move(message)}};
}

/// A T or an Error. `value()` of an Error and `error()` of a value are bugs (MEMOPD_CHECK). Not thread-safe.
template <class T>
class [[nodiscard]] Expected {
 public:
  using value_type = T;

  Expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Expected(Unexpected failure) : state_(std::in_place_index<1>, std::move(failure.error)) {}

  [[nodiscard]] bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  T& value() & {
    MEMOPD_CHECK(has_value(), error_text());
    return std::get<0>(state_);
  }
  const T& value() const& {
    MEMOPD_CHECK(has_value(), error_text());
    return std::get<0>(state_);
  }
  T&& value() && {
    MEMOPD_CHECK(has_value(), error_text());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& {
    MEMOPD_CHECK(!has_value(), "error() of an Expected that holds a value");
    return std::get<1>(state_);
  }

  template <class U>
  [[nodiscard]] T value_or(U&& fallback) const& {
    return has_value() ? std::get<0>(state_) : static_cast<T>(std::forward<U>(fallback));
  }

 private:
  [[nodiscard]] std::string error_text() const { return has_value() ? std::string() : std::get<1>(state_).message; }

  std::variant<T, Error> state_;
};

/// Success without a value, or an Error.
template <>
class [[nodiscard]] Expected<void> {
 public:
  using value_type = void;

  Expected() = default;
  Expected(Unexpected failure) : error_(std::move(failure.error)), has_value_(false) {}

  [[nodiscard]] bool has_value() const noexcept { return has_value_; }
  explicit operator bool() const noexcept { return has_value_; }
  void value() const { MEMOPD_CHECK(has_value_, error_.message); }
  const Error& error() const& {
    MEMOPD_CHECK(!has_value_, "error() of an Expected that holds a value");
    return error_;
  }

 private:
  Error error_{};
  bool has_value_ = true;
};

}  // namespace memopd

/// Returns the error of `expression` from the enclosing function, if it has one.
#define MEMOPD_RETURN_IF_ERROR(expression)                     \
  do {                                                         \
    if (auto&& memopd_result = (expression); !memopd_result) { \
      return ::memopd::unexpected(memopd_result.error());      \
    }                                                          \
  } while (false)

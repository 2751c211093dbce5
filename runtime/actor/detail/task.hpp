// Task: a move-only callable without arguments, and the contexts it may run in.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace memopd::detail {

class Address;
class ActorCell;

/// Like std::function<void(Args..)>, for callables that cannot be copied.
template <class... Args>
class Callback {
 public:
  Callback() = default;
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Callback>) Callback(F&& f)
      : callable_(std::make_unique<Holder<std::decay_t<F>>>(std::forward<F>(f))) {}

  void operator()(Args... args) { callable_->call(std::forward<Args>(args)...); }
  explicit operator bool() const { return callable_ != nullptr; }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual void call(Args... args) = 0;
  };
  template <class F>
  struct Holder final : Base {
    explicit Holder(F held) : f(std::move(held)) {}
    void call(Args... args) override { f(std::forward<Args>(args)...); }
    F f;
  };
  std::unique_ptr<Base> callable_;
};

using Task = Callback<>;

/// The actor that runs on this thread now; null outside of one.
[[nodiscard]] ActorCell* current_cell();

/// Where the caller runs: an actor, or none.
struct Context {
  std::weak_ptr<Address> address;
  bool is_actor = false;
};
[[nodiscard]] Context current_context();

/// Runs `task` after the current handler; at once outside an actor.
void defer(Task task);
/// Runs `task` now if the caller is in `context`, else hands it to that actor; drops it if that has ended.
void run_in(const Context& context, Task task);
/// A handler or continuation threw: ends the current actor after this turn with `internal: what`.
void handler_threw(const std::string& what);

}  // namespace memopd::detail

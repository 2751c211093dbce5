// Runs calls into other people's code, which may never return, away from the actor that made them.
#pragma once

#include <functional>
#include <memory>

namespace memopd {

class CallExecutor {
 public:
  virtual ~CallExecutor() = default;
  /// Runs `call` once, at once or soon; never blocks on it. A call that hangs occupies nothing that others need.
  virtual void run(std::function<void()> call) = 0;
};

/// Each call on a thread that is free, or a new one: as many threads as calls run at a time. Threads whose call never
/// returns are left behind at destruction; calls must therefore own what they touch.
[[nodiscard]] std::unique_ptr<CallExecutor> make_threaded_executor();

/// Calls on the caller's thread: for deterministic tests.
[[nodiscard]] std::unique_ptr<CallExecutor> make_inline_executor();

}  // namespace memopd

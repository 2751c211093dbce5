// `memopd-cluster launch --detach`: the run goes on without a terminal.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace memopd {

struct DetachPlan {
  std::filesystem::path run_folder;  ///< where the run will be, or is when it is resumed
  bool is_resumed = false;
};

/// Forks; the child leads a session of its own, reads nothing, and runs `launch`, whose result is its exit code. What it
/// prints goes to `run_folder`/logs/launcher.out. Call before any thread is started.
/// The caller waits until the run has written an event, then prints where it is and how to follow it.
/// @return in the caller: 0 the run has begun (or ended well already); else the child's exit code, after its output
int run_detached(const DetachPlan& plan, const std::function<int()>& launch);

}  // namespace memopd

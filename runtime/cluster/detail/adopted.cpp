#include "runtime/cluster/detail/adopted.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace memopd::detail {

OwnedChildren& OwnedChildren::of_this_process() {
  static OwnedChildren owned;
  return owned;
}

void OwnedChildren::erase(pid_t pid) {
  const std::scoped_lock guard(mutex_);
  pids_.erase(pid);
}

std::vector<ProcessStat> OwnedChildren::sweep(bool kills) {
  const std::scoped_lock guard(mutex_);
  const pid_t self = ::getpid();
  const pid_t own_group = ::getpgrp();
  auto all = read_all_processes();
  // Without the heads of spared trees nothing below them is reached.
  std::erase_if(all, [&](const ProcessStat& process) {
    return process.parent == self && (pids_.contains(process.pid) || process.pgid == own_group);
  });
  std::vector<ProcessStat> living;
  for (const ProcessStat& process : descendants_of(self, all)) {
    if (process.parent == self && process.state == 'Z') {
      ::waitpid(process.pid, nullptr, WNOHANG);
      continue;
    }
    const auto now = read_process_stat(process.pid);
    if (kills && now && now->start_ticks == process.start_ticks) {
      ::kill(process.pid, SIGKILL);
    }
    living.push_back(process);
  }
  return living;
}

}  // namespace memopd::detail

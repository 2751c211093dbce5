// Descendants that no table started: grandchildren whose parent ended and that are ours now, and their children.
#pragma once

#include <sys/types.h>

#include <mutex>
#include <set>
#include <vector>

#include "runtime/cluster/detail/process_stat.hpp"

namespace memopd::detail {

/// The children that the tables of this process started and have not reaped. Thread-safe.
class OwnedChildren {
 public:
  static OwnedChildren& of_this_process();

  /// Held while a child is started and entered, so that no sweep takes it for an adopted one.
  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  void insert_locked(pid_t pid) { pids_.insert(pid); }
  void erase(pid_t pid);

  /// Takes the status of adopted processes that have ended and, if `kills`, kills the others. Spares children of tables,
  /// children of this process's own group and the descendants of both. Returns those that live on.
  std::vector<ProcessStat> sweep(bool kills);

 private:
  std::mutex mutex_;
  std::set<pid_t> pids_;
};

}  // namespace memopd::detail

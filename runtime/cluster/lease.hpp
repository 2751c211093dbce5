// The child's half of a ProcessTable: its start bytes, its heartbeats, and its end when nobody renews its lease.
//
// LE-1  a child whose parent is gone (end of file) or frozen (no renewal for `lease`) ends, whatever its other threads do.
// LE-2  a child that was itself stopped reads what came meanwhile before it judges, and waits one interval more.
// LE-3  its own children end with it: by default its process group and its descendants are killed before it exits.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

/// Reads a u32 little endian length, at most 64 MiB, and as many bytes; blocks. Once, before a Lease is started.
/// @error io_error     the stream ended early, or the kernel refused
/// @error parse_error  a larger length; nothing is allocated by it
[[nodiscard]] Expected<std::vector<std::byte>> read_start_bytes(int fd = 0);

struct LeaseOptions {
  int stdin_fd =
      0;  ///< lease bytes come from here; afterwards /dev/null is in its place, so that nobody else takes them
  int heartbeat_fd = 3;  ///< made close-on-exec and non-blocking; -1: nobody reads heartbeats
  std::chrono::milliseconds heartbeat_interval{500};  ///< >= 1
  std::chrono::milliseconds lease{5000};              ///< >= 2 heartbeat_interval
  /// Called once, on the lease's thread, which ends then. Default: says so on stderr, kills the process group, if it is its
  /// own, and the descendants, and `_exit(kLostLeaseCode)`.
  std::function<void(const std::string& reason)> on_lost = nullptr;
};

inline constexpr int kLostLeaseCode = 75;

/// A thread that gives heartbeats and watches renewals until destroyed. It changes the death signal that start_child has set
/// from SIGKILL to SIGCONT: a stopped child wakes up and ends by LE-3, where the kernel would have left its children alive.
class Lease {
 public:
  /// @error invalid_argument  an interval outside its range
  /// @error io_error          a descriptor that is not open, or the kernel refused
  [[nodiscard]] static Expected<std::unique_ptr<Lease>> start(LeaseOptions options);
  ~Lease();  ///< no more heartbeats, no more watching; not in on_lost
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

 private:
  class Watch;
  explicit Lease(std::unique_ptr<Watch> watch);

  std::unique_ptr<Watch> watch_;
};

}  // namespace memopd

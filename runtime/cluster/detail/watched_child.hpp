// One child of a ProcessTable: its pipes, its heartbeats, and why it is to end. Belongs to the table's thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cluster/child_process.hpp"
#include "runtime/cluster/detail/output_log.hpp"
#include "runtime/cluster/process_table.hpp"
#include "runtime/cluster/wait_status.hpp"

namespace memopd::detail {

using Clock = std::chrono::steady_clock;

/// Why a child is to end; the first cause stays.
struct EndRequest {
  enum class Kind : std::uint8_t { none, stop, kill, silent } kind = Kind::none;
  std::string reason;
  std::chrono::milliseconds grace{0};
  Clock::time_point kill_at = Clock::time_point::max();  ///< stop: when its grace is over
  bool was_grace_over = false;
};

/// Tells deaths by the kernel's out-of-memory killer from other SIGKILLs: each explains one rise of the counter.
class OomKills {
 public:
  OomKills() : seen_(oom_kill_count()) {}
  /// Whether there is one that no death has been explained by.
  [[nodiscard]] bool take();

 private:
  std::optional<std::int64_t> seen_;
};

class WatchedChild {
 public:
  WatchedChild(std::string name, StartedChild started, const std::vector<std::byte>& stdin_bytes, OutputLog log);

  // Each reads or writes what the pipe takes now and closes it when the other side has.
  void write_pending();
  void serve_lifeline(bool is_broken);
  bool read_heartbeats(Clock::time_point now);  ///< whether there was any
  void read_output();
  /// A lease byte, unless start bytes are still waiting or the pipe is full.
  void renew_lease();

  /// Kills the group and every descendant outside of it.
  void kill_tree() const;
  /// After its end: kills what is left of its group, takes its status and the rest of its output.
  [[nodiscard]] ExitReport reap(OomKills& oom_kills);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const StartedChild& process() const { return process_; }
  [[nodiscard]] bool has_pending_input() const { return written_ < pending_.size(); }
  [[nodiscard]] bool has_beaten() const { return last_beat_.load() != Clock::time_point::min(); }
  [[nodiscard]] Clock::time_point last_beat() const { return last_beat_.load(); }  ///< the one call for other threads
  /// Counts silence from `now` if it was being counted.
  void forgive_silence(Clock::time_point now);

  bool is_suspect = false;
  EndRequest end;

 private:
  [[nodiscard]] std::string exit_text(const ExitCause& cause) const;

  std::string name_;
  StartedChild process_;
  std::string pending_;
  std::size_t written_ = 0;
  OutputLog log_;
  std::atomic<Clock::time_point> last_beat_{Clock::time_point::min()};
};

}  // namespace memopd::detail

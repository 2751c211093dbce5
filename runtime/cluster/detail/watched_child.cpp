#include "runtime/cluster/detail/watched_child.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "runtime/cluster/detail/process_stat.hpp"

namespace memopd::detail {
namespace {

constexpr std::size_t kBlockBytes = 16 * 1024;
constexpr int kMaxBlocksAtEnd = 256;  // a descendant that left the group may go on printing for ever

/// Bytes read, 0 when there is none now; closes the descriptor at the end of the file.
std::size_t read_some(FileDescriptor& from, std::array<char, kBlockBytes>& block) {
  if (!from.is_open()) {
    return 0;
  }
  const auto size = ::read(from.get(), block.data(), block.size());
  if (size > 0) {
    return static_cast<std::size_t>(size);
  }
  if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
    from.close();
  }
  return 0;
}

std::string framed(const std::vector<std::byte>& bytes) {
  std::string text;
  text.reserve(4 + bytes.size());
  for (int shift = 0; shift < 32; shift += 8) {
    text += static_cast<char>((bytes.size() >> shift) & 0xff);
  }
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return text;
}

}  // namespace

WatchedChild::WatchedChild(std::string name, StartedChild started, const std::vector<std::byte>& stdin_bytes,
                           OutputLog log)
    : name_(std::move(name)), process_(std::move(started)), pending_(framed(stdin_bytes)), log_(std::move(log)) {}

void WatchedChild::write_pending() {
  while (has_pending_input() && process_.lifeline.is_open()) {
    const auto size = ::write(process_.lifeline.get(), pending_.data() + written_, pending_.size() - written_);
    if (size < 0) {
      if (errno == EINTR) {
        continue;
      }
      if (errno != EAGAIN) {
        process_.lifeline.close();
      }
      return;
    }
    written_ += static_cast<std::size_t>(size);
  }
  pending_.clear();
  pending_.shrink_to_fit();  // it may hold a secret and 64 MiB
  written_ = 0;
}

void WatchedChild::serve_lifeline(bool is_broken) {
  if (is_broken) {
    process_.lifeline.close();
  } else {
    write_pending();
  }
}

void WatchedChild::renew_lease() {
  if (!has_pending_input() && process_.lifeline.is_open() && ::write(process_.lifeline.get(), "+", 1) < 0 &&
      errno == EPIPE) {
    process_.lifeline.close();
  }
}

bool WatchedChild::read_heartbeats(Clock::time_point now) {
  std::array<char, kBlockBytes> block;
  if (read_some(process_.heartbeats, block) == 0) {
    return false;
  }
  last_beat_ = now;
  return true;
}

void WatchedChild::forgive_silence(Clock::time_point now) {
  if (has_beaten()) {
    last_beat_ = now;
  }
}

void WatchedChild::read_output() {
  std::array<char, kBlockBytes> block;
  if (const auto size = read_some(process_.output, block); size > 0) {
    log_.append({block.data(), size});
  }
}

void WatchedChild::kill_tree() const {
  const auto descendants = descendants_of(process_.mark.pid, read_all_processes());
  ::kill(-process_.mark.pgid, SIGKILL);
  for (const ProcessStat& process : descendants) {
    const auto now = read_process_stat(process.pid);
    if (now && now->start_ticks == process.start_ticks) {
      ::kill(process.pid, SIGKILL);
    }
  }
}

bool OomKills::take() {
  const auto count = oom_kill_count();
  if (!count || !seen_ || *count <= *seen_) {
    return false;
  }
  ++*seen_;
  return true;
}

ExitReport WatchedChild::reap(OomKills& oom_kills) {
  ::kill(-process_.mark.pgid, SIGKILL);  // before its status is taken: until then its pid is not used again
  int status = 0;
  rusage usage{};
  while (::wait4(process_.mark.pid, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  std::array<char, kBlockBytes> block;
  for (int i = 0; i < kMaxBlocksAtEnd; ++i) {
    const auto size = read_some(process_.output, block);
    if (size == 0) {
      break;
    }
    log_.append({block.data(), size});
  }
  log_.finish();
  ExitReport report;
  report.cause = decode_wait_status(status);
  const bool was_ours =
      end.kind == EndRequest::Kind::kill || end.kind == EndRequest::Kind::silent || end.was_grace_over;
  report.cause.was_out_of_memory = report.cause.signal == SIGKILL && !was_ours && oom_kills.take();
  report.text = exit_text(report.cause);
  report.was_asked_to_stop = end.kind == EndRequest::Kind::stop || end.kind == EndRequest::Kind::kill;
  report.was_silent = end.kind == EndRequest::Kind::silent;
  report.peak_rss_bytes = std::int64_t{usage.ru_maxrss} * 1024;
  report.last_lines = log_.last_lines();
  report.shell_code = shell_code(report.cause);
  return report;
}

std::string WatchedChild::exit_text(const ExitCause& cause) const {
  switch (end.kind) {
    case EndRequest::Kind::none:
      break;
    case EndRequest::Kind::silent:
      return fmt::format("{}: declared dead and killed", end.reason);
    case EndRequest::Kind::kill:
      return fmt::format("{} on request: {}", to_string(cause), end.reason);
    case EndRequest::Kind::stop:
      return end.was_grace_over ? fmt::format("{}, {} ms after it was asked to stop: {}", to_string(cause),
                                              end.grace.count(), end.reason)
                                : fmt::format("{} after it was asked to stop: {}", to_string(cause), end.reason);
  }
  return to_string(cause);
}

}  // namespace memopd::detail

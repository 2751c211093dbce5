#include "runtime/cluster/lease.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/cluster/detail/file_descriptor.hpp"
#include "runtime/cluster/detail/process_stat.hpp"

namespace memopd {
namespace {

using detail::FileDescriptor;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kMaxStartBytes = 64U << 20;

Expected<void> read_exactly(int fd, std::byte* to, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const auto got = ::read(fd, to + done, size - done);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return unexpected(ErrorCode::io_error, fmt::format("start bytes: {} of {} came: {}", done, size,
                                                         got == 0 ? "end of file" : std::strerror(errno)));
    }
    done += static_cast<std::size_t>(got);
  }
  return {};
}

/// One line on stderr, unless that would block: whoever reads it may be frozen.
void complain(const std::string& reason) {
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0) {
    const std::string line = fmt::format("lease lost: {}\n", reason);
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  }
}

void kill_own_tree() {
  const pid_t self = ::getpid();
  const auto all = detail::read_all_processes();
  auto victims = detail::descendants_of(self, all);
  if (::getpgrp() == self) {
    std::copy_if(all.begin(), all.end(), std::back_inserter(victims), [self](const auto& p) { return p.pgid == self; });
  }
  for (const auto& process : victims) {
    if (process.pid != self) {
      ::kill(process.pid, SIGKILL);
    }
  }
}

[[noreturn]] void end_process(const std::string& reason) {
  complain(reason);
  kill_own_tree();
  ::_exit(kLostLeaseCode);
}

}  // namespace

Expected<std::vector<std::byte>> read_start_bytes(int fd) {
  std::array<std::byte, 4> header{};
  MEMOPD_RETURN_IF_ERROR(read_exactly(fd, header.data(), header.size()));
  std::uint32_t size = 0;
  for (std::size_t i = 0; i < header.size(); ++i) {
    size |= std::to_integer<std::uint32_t>(header[i]) << (8 * i);
  }
  if (size > kMaxStartBytes) {
    return unexpected(ErrorCode::parse_error,
                      fmt::format("start bytes: a length of {}, at most {} allowed", size, kMaxStartBytes));
  }
  std::vector<std::byte> bytes(size);
  MEMOPD_RETURN_IF_ERROR(read_exactly(fd, bytes.data(), bytes.size()));
  return bytes;
}

/// The thread and its descriptors.
class Lease::Watch {
 public:
  Watch(LeaseOptions options, FileDescriptor renewals, FileDescriptor wake)
      : options_(std::move(options)), renewals_(std::move(renewals)), wake_(std::move(wake)) {}
  ~Watch() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  void start() {
    thread_ = std::thread([this] { run(); });
  }

 private:
  void run();
  /// Takes every renewal that has come; false at the end of the file.
  bool drain(Clock::time_point now);
  void lose(const std::string& reason);

  const LeaseOptions options_;
  const FileDescriptor renewals_;  ///< non-blocking
  const FileDescriptor wake_;      ///< eventfd: readable when the thread is to end
  Clock::time_point renewed_at_;
  Clock::time_point valid_until_;
  std::thread thread_;
};

void Lease::Watch::run() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  ::pthread_setname_np(::pthread_self(), "lease");
  auto last_round = Clock::now();
  auto next_beat = last_round;
  renewed_at_ = last_round;
  valid_until_ = last_round + options_.lease;
  while (true) {
    const auto wait = duration_cast<milliseconds>(std::min(next_beat, valid_until_) - Clock::now()) + milliseconds(1);
    std::array<pollfd, 2> ready = {pollfd{renewals_.get(), POLLIN, 0}, pollfd{wake_.get(), POLLIN, 0}};
    ::poll(ready.data(), ready.size(), static_cast<int>(std::max<std::int64_t>(0, wait.count())));
    const auto now = Clock::now();
    if (ready[1].revents != 0) {
      return;
    }
    if (!drain(now)) {
      return lose("end of its stdin: the parent process has ended");
    }
    if (now - last_round > 2 * options_.heartbeat_interval) {  // this process itself stood still
      valid_until_ = std::max(valid_until_, now + options_.heartbeat_interval);
    }
    last_round = now;
    if (now >= valid_until_) {
      return lose(fmt::format("not renewed for {} ms", duration_cast<milliseconds>(now - renewed_at_).count()));
    }
    if (now >= next_beat) {
      if (options_.heartbeat_fd >= 0) {
        [[maybe_unused]] const auto written = ::write(options_.heartbeat_fd, ".", 1);
      }
      next_beat = now + options_.heartbeat_interval;
    }
  }
}

bool Lease::Watch::drain(Clock::time_point now) {
  std::array<char, 4096> bytes;
  while (true) {
    const auto size = ::read(renewals_.get(), bytes.data(), bytes.size());
    if (size == 0) {
      return false;
    }
    if (size < 0) {
      return errno == EAGAIN || errno == EINTR;
    }
    renewed_at_ = now;
    valid_until_ = now + options_.lease;
  }
}

void Lease::Watch::lose(const std::string& reason) {
  if (options_.on_lost) {
    options_.on_lost(reason);
  } else {
    end_process(reason);
  }
}

Expected<std::unique_ptr<Lease>> Lease::start(LeaseOptions options) {
  if (options.heartbeat_interval < milliseconds(1) || options.lease < 2 * options.heartbeat_interval) {
    return unexpected(
        ErrorCode::invalid_argument,
        fmt::format("lease: heartbeat_interval {} ms, lease {} ms; allowed: at least 1 ms, and at least twice "
                    "heartbeat_interval",
                    options.heartbeat_interval.count(), options.lease.count()));
  }
  FileDescriptor renewals(::fcntl(options.stdin_fd, F_DUPFD_CLOEXEC, 4));
  FileDescriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const FileDescriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const bool is_ready = renewals.is_open() && wake.is_open() && nothing.is_open() &&
                        ::dup2(nothing.get(), options.stdin_fd) >= 0 &&
                        ::fcntl(renewals.get(), F_SETFL, O_NONBLOCK) == 0;
  const bool has_heartbeats =
      options.heartbeat_fd < 0 || (::fcntl(options.heartbeat_fd, F_SETFL, O_WRONLY | O_NONBLOCK) == 0 &&
                                   ::fcntl(options.heartbeat_fd, F_SETFD, FD_CLOEXEC) == 0);
  if (!is_ready || !has_heartbeats) {
    return unexpected(ErrorCode::io_error, fmt::format("lease on descriptors {} and {}: {}", options.stdin_fd,
                                                       options.heartbeat_fd, std::strerror(errno)));
  }
  int death_signal = 0;
  if (::prctl(PR_GET_PDEATHSIG, &death_signal) == 0 && death_signal == SIGKILL) {
    ::prctl(PR_SET_PDEATHSIG, SIGCONT);
  }
  std::unique_ptr<Lease> lease(
      new Lease(std::make_unique<Watch>(std::move(options), std::move(renewals), std::move(wake))));
  try {
    lease->watch_->start();
  } catch (const std::system_error& error) {
    return unexpected(ErrorCode::io_error, fmt::format("lease: {}", error.what()));
  }
  return lease;
}

Lease::Lease(std::unique_ptr<Watch> watch) : watch_(std::move(watch)) {}
Lease::~Lease() = default;

}  // namespace memopd

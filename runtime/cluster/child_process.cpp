#include "runtime/cluster/child_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>

#include "runtime/cluster/detail/process_stat.hpp"

namespace memopd {
namespace {

using detail::FileDescriptor;

constexpr int kHeartbeatFd = 3;
constexpr int kFirstOtherFd = 4;

struct Pipe {
  FileDescriptor reader;
  FileDescriptor writer;
};

Unexpected system_error(const char* what) {
  return unexpected(ErrorCode::io_error, fmt::format("{}: {}", what, std::strerror(errno)));
}

/// Both ends close-on-exec and above the child's own descriptors, so that dup2 in the child overwrites none of them.
Expected<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return system_error("pipe");
  }
  const Pipe low{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
  Pipe high{FileDescriptor(::fcntl(ends[0], F_DUPFD_CLOEXEC, kFirstOtherFd)),
            FileDescriptor(::fcntl(ends[1], F_DUPFD_CLOEXEC, kFirstOtherFd))};
  if (!high.reader.is_open() || !high.writer.is_open()) {
    return system_error("pipe");
  }
  return high;
}

/// What the child reports instead of running: where it failed and errno.
struct Failure {
  enum class Stage : int { descriptors, working_directory, program } stage;
  int error;
};

/// All that the child needs, prepared before the fork: after it only async-signal-safe calls are allowed.
struct ChildPlan {
  std::vector<char*> argv;  ///< ends with nullptr
  const char* cwd = nullptr;
  pid_t parent = 0;
  int input = -1;
  int output = -1;
  int heartbeats = -1;
  int failure = -1;
};

[[noreturn]] void fail(const ChildPlan& plan, Failure::Stage stage) {
  const Failure failure{stage, errno};
  [[maybe_unused]] const auto written = ::write(plan.failure, &failure, sizeof failure);
  ::_exit(127);
}

void mark_other_descriptors_close_on_exec() {
  if (::close_range(kFirstOtherFd, ~0U, CLOSE_RANGE_CLOEXEC) == 0) {
    return;
  }
  constexpr int kLimit = 65536;  // kernels before 5.11; our own descriptors are close-on-exec anyway
  for (int number = kFirstOtherFd; number < kLimit; ++number) {
    ::fcntl(number, F_SETFD, FD_CLOEXEC);
  }
}

void reset_signals() {
  struct sigaction by_default = {};
  by_default.sa_handler = SIG_DFL;  // NOLINT(cppcoreguidelines-pro-type-union-access): the interface of POSIX
  for (int signal = 1; signal < NSIG; ++signal) {
    ::sigaction(signal, &by_default, nullptr);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// In the child, between fork and exec.
[[noreturn]] void run_child(const ChildPlan& plan) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) {
    ::_exit(127);  // the parent ended before the death signal was set
  }
  if (::dup2(plan.input, STDIN_FILENO) < 0 || ::dup2(plan.output, STDOUT_FILENO) < 0 ||
      ::dup2(plan.output, STDERR_FILENO) < 0 || ::dup2(plan.heartbeats, kHeartbeatFd) < 0) {
    fail(plan, Failure::Stage::descriptors);
  }
  mark_other_descriptors_close_on_exec();
  if (plan.cwd != nullptr && ::chdir(plan.cwd) != 0) {
    fail(plan, Failure::Stage::working_directory);
  }
  reset_signals();
  ::execvp(plan.argv.front(), plan.argv.data());
  fail(plan, Failure::Stage::program);
}

/// Forks with every signal blocked, so that no handler of ours runs in the child.
pid_t fork_child(const ChildPlan& plan) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  if (pid == 0) {
    run_child(plan);
  }
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return pid;
}

/// Waits until the child runs its program (the pipe closes on exec) or has failed.
std::optional<Failure> read_failure(int reader) {
  Failure failure{};
  ssize_t size = 0;
  do {
    size = ::read(reader, &failure, sizeof failure);
  } while (size < 0 && errno == EINTR);
  return size == sizeof failure ? std::optional(failure) : std::nullopt;
}

Unexpected failure_error(const Failure& failure, const std::string& program, const std::filesystem::path& cwd) {
  const auto code = failure.error == ENOENT ? ErrorCode::not_found : ErrorCode::io_error;
  const char* words = std::strerror(failure.error);
  switch (failure.stage) {
    case Failure::Stage::working_directory:
      return unexpected(code, fmt::format("working directory {}: {}", cwd.string(), words));
    case Failure::Stage::program:
      return unexpected(code, fmt::format("program {}: {}", program, words));
    case Failure::Stage::descriptors:
      break;
  }
  return unexpected(code, fmt::format("descriptors of program {}: {}", program, words));
}

void set_non_blocking(const FileDescriptor& descriptor) {
  ::fcntl(descriptor.get(), F_SETFL, ::fcntl(descriptor.get(), F_GETFL) | O_NONBLOCK);
}

/// Ends a child that we cannot watch and takes its status.
void discard(pid_t pid) {
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

bool is_alive(const ProcessMark& mark) {
  const auto stat = detail::read_process_stat(mark.pid);
  return stat && stat->start_ticks == mark.start_ticks && stat->state != 'Z' && stat->state != 'X';
}

Expected<void> signal_group(const ProcessMark& mark, int signal) {
  const auto stat = mark.pid > 0 && mark.pgid > 1 ? detail::read_process_stat(mark.pid) : std::nullopt;
  if (!stat || stat->start_ticks != mark.start_ticks || stat->pgid != mark.pgid) {
    return unexpected(ErrorCode::not_found, fmt::format("process {} started at tick {}: it has ended{}", mark.pid,
                                                        mark.start_ticks, stat ? ", its pid is another's now" : ""));
  }
  if (::kill(-mark.pgid, signal) != 0) {
    return system_error("kill");
  }
  return {};
}

Expected<StartedChild> start_child(const std::vector<std::string>& argv, const std::filesystem::path& cwd) {
  if (argv.empty()) {
    return unexpected(ErrorCode::invalid_argument, "child process: argv is empty, at least a program is needed");
  }
  auto input = make_pipe();
  auto output = make_pipe();
  auto heartbeats = make_pipe();
  auto failure = make_pipe();
  for (const auto* pipe : {&input, &output, &heartbeats, &failure}) {
    MEMOPD_RETURN_IF_ERROR(*pipe);
  }
  ChildPlan plan;
  for (const std::string& argument : argv) {
    plan.argv.push_back(const_cast<char*>(argument.c_str()));  // NOLINT: exec's interface; it does not write
  }
  plan.argv.push_back(nullptr);
  plan.cwd = cwd.empty() ? nullptr : cwd.c_str();
  plan.parent = ::getpid();
  plan.input = input->reader.get();
  plan.output = output->writer.get();
  plan.heartbeats = heartbeats->writer.get();
  plan.failure = failure->writer.get();

  const pid_t pid = fork_child(plan);
  if (pid < 0) {
    return system_error("fork");
  }
  failure->writer.close();
  if (const auto failed = read_failure(failure->reader.get())) {
    discard(pid);
    return failure_error(*failed, argv.front(), cwd);
  }
  FileDescriptor ended(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  const auto stat = detail::read_process_stat(pid);
  if (!ended.is_open() || !stat) {
    const auto error = system_error(ended.is_open() ? "/proc/PID/stat of a new child" : "pidfd_open");
    discard(pid);
    return error;
  }
  for (const FileDescriptor* ours : {&input->writer, &output->reader, &heartbeats->reader}) {
    set_non_blocking(*ours);
  }
  return StartedChild{{pid, pid, stat->start_ticks},
                      std::move(input->writer),
                      std::move(output->reader),
                      std::move(heartbeats->reader),
                      std::move(ended)};
}

}  // namespace memopd

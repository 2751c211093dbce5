#include "runtime/cluster/detail/process_loop.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/cluster/detail/adopted.hpp"
#include "runtime/cluster/detail/process_stat.hpp"

namespace memopd::detail {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

constexpr std::size_t kMaxStdinBytes = std::size_t{64} << 20;
constexpr std::size_t kPollsPerChild = 4;
constexpr milliseconds kSweepInterval{2000};
constexpr milliseconds kSweepIntervalAtEnd{10};
constexpr milliseconds kUnkillableAfter{10'000};

std::filesystem::path log_file_of(const ChildSpec& spec, const std::filesystem::path& folder) {
  if (!spec.log_file.empty() || folder.empty()) {
    return spec.log_file;
  }
  std::string name = spec.name;
  std::replace(name.begin(), name.end(), '/', '-');
  return folder / (name + ".log");
}

/// A lost status would be a lost cause of death: an ignored SIGCHLD, which exec inherits, makes the kernel forget it.
void keep_statuses_of_children() {
  struct sigaction current = {};
  if (::sigaction(SIGCHLD, nullptr, &current) == 0 && current.sa_handler == SIG_IGN) {
    ::signal(SIGCHLD, SIG_DFL);
  }
}

}  // namespace

Expected<std::unique_ptr<ProcessLoop>> ProcessLoop::start(ProcessTableOptions options, ProcessTableHandlers handlers) {
  if (options.heartbeat_interval < milliseconds(1) || options.dead_after < 2 * options.heartbeat_interval) {
    return unexpected(
        ErrorCode::invalid_argument,
        fmt::format("process table: heartbeat_interval {} ms, dead_after {} ms; allowed: at least 1 ms, and "
                    "at least twice heartbeat_interval",
                    options.heartbeat_interval.count(), options.dead_after.count()));
  }
  FileDescriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.is_open() || ::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    return unexpected(ErrorCode::io_error, fmt::format("process table: {}", std::strerror(errno)));
  }
  keep_statuses_of_children();
  std::unique_ptr<ProcessLoop> loop(new ProcessLoop(std::move(options), std::move(handlers), std::move(wake)));
  try {
    loop->thread_ = std::thread([raw = loop.get()] { raw->run(); });
  } catch (const std::system_error& error) {
    return unexpected(ErrorCode::io_error, fmt::format("process table: {}", error.what()));
  }
  return loop;
}

ProcessLoop::ProcessLoop(ProcessTableOptions options, ProcessTableHandlers handlers, FileDescriptor wake)
    : options_(std::move(options)), handlers_(std::move(handlers)), wake_(std::move(wake)) {
  last_round_ = next_lease_ = Clock::now();
  next_sweep_ = last_round_ + kSweepInterval;
}

ProcessLoop::~ProcessLoop() {
  if (!thread_.joinable()) {
    return;
  }
  shutdown(milliseconds(0));
  post([this] { is_ending_ = true; });
  thread_.join();
}

void ProcessLoop::post(Command command) {
  {
    const std::scoped_lock guard(mutex_);
    commands_.push_back(std::move(command));
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

Expected<ProcessMark> ProcessLoop::launch(ChildSpec spec) {
  if (is_own_thread()) {
    return unexpected(ErrorCode::refused, fmt::format("child {}: a handler of its table cannot launch", spec.name));
  }
  auto result = std::make_shared<std::promise<Expected<ProcessMark>>>();
  auto answer = result->get_future();
  post([this, result, spec = std::move(spec)] { result->set_value(launch_here(spec)); });
  return answer.get();
}

void ProcessLoop::stop(const std::string& name, milliseconds grace, const std::string& reason) {
  post([this, name, grace, reason] {
    if (const auto child = children_.find(name); child != children_.end()) {
      ask_to_stop(*child->second, grace, reason);
    }
  });
}

void ProcessLoop::kill(const std::string& name, const std::string& reason) {
  post([this, name, reason] {
    if (const auto child = children_.find(name); child != children_.end()) {
      WatchedChild& target = *child->second;
      if (target.end.kind == EndRequest::Kind::none || target.end.kind == EndRequest::Kind::stop) {
        target.end = {EndRequest::Kind::kill, reason};
      }
      target.kill_tree();
    }
  });
}

void ProcessLoop::shutdown(milliseconds grace) {
  auto quiet = std::make_shared<std::promise<void>>();
  auto answer = quiet->get_future();
  post([this, grace, quiet] {
    is_shut_down_ = true;
    for (auto& [name, child] : children_) {
      ask_to_stop(*child, grace, "its node shuts down");
    }
    waiting_for_quiet_.push_back(quiet);
    next_sweep_ = Clock::now();
    give_up_at_ = next_sweep_ + grace + kUnkillableAfter;
  });
  answer.get();
}

std::vector<ProcessSnapshot> ProcessLoop::snapshot() const {
  std::vector<ProcessSnapshot> all;
  const auto now = Clock::now();
  const std::scoped_lock guard(mutex_);
  for (const auto& [name, child] : children_) {
    ProcessSnapshot one{name, child->process().mark};
    if (child->has_beaten()) {
      one.silent_ms = std::max<std::int64_t>(0, duration_cast<milliseconds>(now - child->last_beat()).count());
    }
    one.rss_bytes = resident_bytes(one.mark.pid);
    if (const auto stat = read_process_stat(one.mark.pid)) {
      one.cpu_s = static_cast<double>(stat->cpu_ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
    }
    all.push_back(std::move(one));
  }
  return all;
}

void ProcessLoop::run() {
  sigset_t all;
  ::sigfillset(&all);  // a closed stdin is an error code here, and signals to the process are other threads' business
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  ::pthread_setname_np(::pthread_self(), "process_table");
  while (!is_ending_) {
    wait_and_serve();
    report_ended(std::exchange(ended_, {}));
    run_commands();
    const auto now = Clock::now();
    judge(now);
    renew_leases(now);
    take_adopted(now);
  }
}

void ProcessLoop::wait_and_serve() {
  auto ready = poll_set();
  const auto before = Clock::now();
  const auto planned = std::clamp(duration_cast<milliseconds>(next_deadline() - before) + milliseconds(1),
                                  milliseconds(0), milliseconds(60'000));
  ::poll(ready.data(), ready.size(), static_cast<int>(planned.count()));
  const auto now = Clock::now();
  // This process was stopped, or did not get the processor: what we did not hear then says nothing about the children.
  if (now - last_round_ > planned + options_.dead_after / 4) {
    for (auto& [name, child] : children_) {
      child->forgive_silence(now);
    }
  }
  last_round_ = now;
  serve(ready, now);
}

Clock::time_point ProcessLoop::next_deadline() const {
  auto next = std::min(next_lease_, next_sweep_);
  for (const auto& [name, child] : children_) {
    next = std::min(next, child->end.kill_at);
    if (child->has_beaten() && child->end.kind == EndRequest::Kind::none) {
      next = std::min(next, child->last_beat() + (child->is_suspect ? options_.dead_after : options_.dead_after / 2));
    }
  }
  return next;
}

std::vector<pollfd> ProcessLoop::poll_set() const {
  std::vector<pollfd> set = {{wake_.get(), POLLIN, 0}};
  for (const auto& [name, child] : children_) {
    const StartedChild& process = child->process();
    set.push_back({process.ended.get(), POLLIN, 0});
    set.push_back({process.heartbeats.get(), POLLIN, 0});
    set.push_back({process.output.get(), POLLIN, 0});
    set.push_back({process.lifeline.get(), static_cast<short>(child->has_pending_input() ? POLLOUT : 0), 0});
  }
  return set;
}

void ProcessLoop::serve(const std::vector<pollfd>& ready, Clock::time_point now) {
  std::size_t at = 1;
  for (auto& [name, child] : children_) {
    if (ready[at].revents != 0) {
      ended_.push_back(name);
    }
    if (ready[at + 1].revents != 0 && child->read_heartbeats(now) && std::exchange(child->is_suspect, false) &&
        handlers_.on_recovered) {
      handlers_.on_recovered(name);
    }
    if (ready[at + 2].revents != 0) {
      child->read_output();
    }
    if (ready[at + 3].revents != 0) {
      child->serve_lifeline((ready[at + 3].revents & POLLERR) != 0);
    }
    at += kPollsPerChild;
  }
}

void ProcessLoop::run_commands() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto size = ::read(wake_.get(), &count, sizeof count);
  std::vector<Command> commands;
  {
    const std::scoped_lock guard(mutex_);
    commands.swap(commands_);
  }
  for (const Command& command : commands) {
    command();
  }
}

void ProcessLoop::report_ended(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto found = children_.find(name);
    const ExitReport report = found->second->reap(oom_kills_);
    OwnedChildren::of_this_process().erase(found->second->process().mark.pid);
    {
      const std::scoped_lock guard(mutex_);
      children_.erase(found);
    }
    if (handlers_.on_exit) {
      handlers_.on_exit(name, report);
    }
  }
}

void ProcessLoop::judge(Clock::time_point now) {
  for (auto& [name, child] : children_) {
    if (child->end.kill_at <= now) {
      child->end.kill_at = Clock::time_point::max();
      child->end.was_grace_over = true;
      child->kill_tree();
    }
    if (child->has_beaten() && child->end.kind == EndRequest::Kind::none) {
      judge_silence(*child, last_round_);  // when heartbeats were last read: a slow handler of ours is no silence
    }
  }
}

void ProcessLoop::judge_silence(WatchedChild& child, Clock::time_point now) {
  const auto silent = duration_cast<milliseconds>(now - child.last_beat());
  if (silent >= options_.dead_after / 2 && !child.is_suspect) {
    child.is_suspect = true;
    if (handlers_.on_suspect) {
      handlers_.on_suspect(child.name(), silent.count());
    }
  }
  if (silent >= options_.dead_after) {
    child.end = {EndRequest::Kind::silent, fmt::format("silent for {} ms", silent.count())};
    child.kill_tree();
  }
}

void ProcessLoop::renew_leases(Clock::time_point now) {
  if (now < next_lease_) {
    return;
  }
  next_lease_ = now + options_.heartbeat_interval;
  for (auto& [name, child] : children_) {
    child->renew_lease();
  }
}

void ProcessLoop::take_adopted(Clock::time_point now) {
  if (now < next_sweep_) {
    return;
  }
  const bool is_end = !waiting_for_quiet_.empty();
  if (is_end && !children_.empty() && now < give_up_at_) {
    next_sweep_ = now + kSweepIntervalAtEnd;
    return;
  }
  const auto living = OwnedChildren::of_this_process().sweep(is_end);
  next_sweep_ = now + (is_end ? kSweepIntervalAtEnd : kSweepInterval);
  if (!is_end || (now < give_up_at_ && !living.empty())) {
    return;
  }
  for (const ProcessStat& process : living) {
    log_error("process_table", "unkillable_process", {{"pid", process.pid}, {"state", std::string(1, process.state)}});
  }
  for (const auto& quiet : std::exchange(waiting_for_quiet_, {})) {
    quiet->set_value();
  }
}

Expected<ProcessMark> ProcessLoop::launch_here(const ChildSpec& spec) {
  if (is_shut_down_) {
    return unexpected(ErrorCode::refused, fmt::format("child {}: its table has shut down", spec.name));
  }
  if (spec.name.empty() || spec.stdin_bytes.size() > kMaxStdinBytes) {
    return unexpected(ErrorCode::invalid_argument,
                      fmt::format("child '{}' with {} stdin bytes; allowed: a name, and at most {} bytes", spec.name,
                                  spec.stdin_bytes.size(), kMaxStdinBytes));
  }
  if (children_.contains(spec.name)) {
    return unexpected(ErrorCode::already_exists, fmt::format("child {}: process {} of this name is alive", spec.name,
                                                             children_[spec.name]->process().mark.pid));
  }
  auto log = OutputLog::open(log_file_of(spec, options_.log_folder));
  MEMOPD_RETURN_IF_ERROR(log);
  OwnedChildren& owned = OwnedChildren::of_this_process();
  const auto starting = owned.lock();
  auto started = start_child(spec.argv, spec.cwd);
  MEMOPD_RETURN_IF_ERROR(started);
  const ProcessMark mark = started->mark;
  owned.insert_locked(mark.pid);
  auto child = std::make_unique<WatchedChild>(spec.name, std::move(*started), spec.stdin_bytes, std::move(*log));
  child->write_pending();
  const std::scoped_lock guard(mutex_);
  children_.emplace(spec.name, std::move(child));
  return mark;
}

void ProcessLoop::ask_to_stop(WatchedChild& child, milliseconds grace, const std::string& reason) {
  const auto kill_at = Clock::now() + grace;
  if (child.end.kind == EndRequest::Kind::none) {
    child.end = {EndRequest::Kind::stop, reason, grace, kill_at};
  } else if (child.end.kind == EndRequest::Kind::stop) {
    child.end.kill_at = std::min(child.end.kill_at, kill_at);
  }
  // Its own child that we have not reaped: the mark cannot be another's. SIGCONT lets a stopped process take its SIGTERM.
  ::kill(-child.process().mark.pgid, SIGTERM);
  ::kill(-child.process().mark.pgid, SIGCONT);
}

}  // namespace memopd::detail

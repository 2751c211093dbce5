// EventLoop: the one thread that owns all sockets of a process (R5). Other threads hand it tasks.
//
// Tasks run in the order of post(). A handler or task must not block: heartbeats are answered by ZeroMQ's own threads,
// but a full inbound pipe stops them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace memopd::detail {

class EventLoop {
 public:
  using Task = std::function<void()>;
  using Clock = std::chrono::steady_clock;
  using TimerId = std::pair<Clock::time_point, std::uint64_t>;

  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Any thread. After run() has returned, tasks are destroyed without having run.
  void post(Task task);
  /// Any thread: run() returns after the current round.
  void stop();

  // The rest: before run(), or on its thread.

  /// Calls `on_readable` while the ZeroMQ socket has something to read; it handles a bounded part of it.
  void watch(void* socket, Task on_readable);
  void unwatch(void* socket);
  TimerId after(std::chrono::milliseconds delay, Task task);
  void cancel(const TimerId& timer) { timers_.erase(timer); }
  void run();

 private:
  [[nodiscard]] long poll_timeout_ms() const;
  void run_posted();
  void run_timers();
  void wait_and_dispatch();
  void drain_wake_up();

  const int wake_up_;  // eventfd

  std::mutex mutex_;  // guards the next two
  std::vector<Task> posted_;
  bool is_stopped_ = false;

  std::map<void*, std::shared_ptr<Task>> watched_;
  std::map<TimerId, Task> timers_;
  std::uint64_t last_timer_ = 0;
};

}  // namespace memopd::detail

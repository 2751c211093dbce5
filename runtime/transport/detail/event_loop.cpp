#include "runtime/transport/detail/event_loop.hpp"

#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <cerrno>

#include "runtime/base/check.hpp"

namespace memopd::detail {

EventLoop::EventLoop() : wake_up_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  MEMOPD_CHECK(wake_up_ >= 0, "no eventfd");
}

EventLoop::~EventLoop() { ::close(wake_up_); }

void EventLoop::post(Task task) {
  bool was_empty = false;
  {
    const std::lock_guard lock(mutex_);
    was_empty = posted_.empty();
    posted_.push_back(std::move(task));
  }
  if (was_empty) {
    ::eventfd_write(wake_up_, 1);
  }
}

void EventLoop::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  ::eventfd_write(wake_up_, 1);
}

void EventLoop::watch(void* socket, Task on_readable) {
  watched_[socket] = std::make_shared<Task>(std::move(on_readable));
}

void EventLoop::unwatch(void* socket) { watched_.erase(socket); }

EventLoop::TimerId EventLoop::after(std::chrono::milliseconds delay, Task task) {
  const TimerId timer{Clock::now() + delay, ++last_timer_};
  timers_.emplace(timer, std::move(task));
  return timer;
}

void EventLoop::run() {
  while (true) {
    run_posted();
    run_timers();
    {
      const std::lock_guard lock(mutex_);
      if (is_stopped_) {
        return;
      }
    }
    wait_and_dispatch();
  }
}

void EventLoop::run_posted() {
  std::vector<Task> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(posted_);
  }
  for (const Task& task : tasks) {
    task();
  }
}

void EventLoop::run_timers() {
  const auto now = Clock::now();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    const Task task = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    task();
  }
}

long EventLoop::poll_timeout_ms() const {
  if (timers_.empty()) {
    return -1;
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first.first - Clock::now());
  return std::max<long>(0, left.count());
}

void EventLoop::wait_and_dispatch() {
  std::vector<zmq_pollitem_t> items{{nullptr, wake_up_, ZMQ_POLLIN, 0}};
  items.reserve(watched_.size() + 1);
  for (const auto& [socket, handler] : watched_) {
    items.push_back({socket, 0, ZMQ_POLLIN, 0});
  }
  if (zmq_poll(items.data(), static_cast<int>(items.size()), poll_timeout_ms()) <= 0) {
    return;
  }
  if (items.front().revents != 0) {
    drain_wake_up();
  }
  for (std::size_t i = 1; i < items.size(); ++i) {
    const auto found = items[i].revents != 0 ? watched_.find(items[i].socket) : watched_.end();
    if (found != watched_.end()) {
      const std::shared_ptr<Task> handler = found->second;  // it may unwatch itself
      (*handler)();
    }
  }
}

void EventLoop::drain_wake_up() {
  eventfd_t count = 0;
  ::eventfd_read(wake_up_, &count);
}

}  // namespace memopd::detail

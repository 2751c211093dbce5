#include "runtime/transport/detail/hash_thread.hpp"

#include <utility>

namespace memopd::detail {

HashThread::HashThread() : thread_([this] { run(); }) {}

HashThread::~HashThread() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void HashThread::submit(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push(std::move(task));
  }
  changed_.notify_one();
}

void HashThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_stopped_ || !tasks_.empty(); });
    if (is_stopped_) {
      return;
    }
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace memopd::detail

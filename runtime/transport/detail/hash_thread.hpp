// HashThread: SHA-256 of payloads as they arrive, off the socket thread. One thread, tasks in order.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>

namespace memopd::detail {

class HashThread {
 public:
  HashThread();
  /// Drops what waits.
  ~HashThread();
  HashThread(const HashThread&) = delete;
  HashThread& operator=(const HashThread&) = delete;

  /// Any thread.
  void submit(std::function<void()> task);

 private:
  void run();

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::queue<std::function<void()>> tasks_;
  bool is_stopped_ = false;

  std::thread thread_;
};

}  // namespace memopd::detail

#include "runtime/telemetry/monitor_connection.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace memopd::detail {
namespace {

using Clock = std::chrono::steady_clock;

// Set while a connection that found the queue full is closed on the accepting thread.
thread_local bool is_refusing = false;

/// Waits until the socket is ready. @return false after `deadline` or on an error
bool wait_until_ready(socket_t socket, short what, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) {
      return false;
    }
    pollfd entry{socket, what, 0};
    const int count = ::poll(&entry, 1, static_cast<int>(left.count()));
    if (count > 0) {
      return true;
    }
    if (count < 0 && errno != EINTR) {
      return false;
    }
  }
}

/// As httplib::ThreadPool, but a connection that would wait behind `max_waiting` others is closed at once.
class BoundedQueue final : public httplib::TaskQueue {
 public:
  BoundedQueue(std::size_t num_threads, std::size_t max_waiting) : max_waiting_(max_waiting) {
    for (std::size_t index = 0; index < num_threads; ++index) {
      threads_.emplace_back([this] { work(); });
    }
  }

  void enqueue(std::function<void()> task) override {
    {
      const std::lock_guard lock(mutex_);
      if (tasks_.size() < max_waiting_) {
        tasks_.push_back(std::move(task));
        ready_.notify_one();
        return;
      }
    }
    is_refusing = true;
    task();
    is_refusing = false;
  }

  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    ready_.notify_all();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

 private:
  void work() {
    while (true) {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [this] { return !tasks_.empty() || is_over_; });
      if (tasks_.empty()) {
        return;
      }
      const auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
    }
  }

  std::size_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> tasks_;
  bool is_over_ = false;
  std::vector<std::thread> threads_;
};

/// Takes what the client still sends, for a moment: a close with unread bytes would reset the answer on its way.
void drain(socket_t socket) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(200);
  char bytes[4096];
  for (int round = 0; round < 16 && wait_until_ready(socket, POLLIN, deadline); ++round) {
    if (::recv(socket, bytes, sizeof bytes, MSG_DONTWAIT) <= 0) {
      return;
    }
  }
}

}  // namespace

DeadlineStream::DeadlineStream(socket_t socket) : socket_(socket), read_deadline_(Clock::now() + kRequestLimit) {}

ssize_t DeadlineStream::read(char* bytes, std::size_t size) {
  if (buffer_begin_ == buffer_.size()) {
    if (!wait_until_ready(socket_, POLLIN, read_deadline_)) {
      return -1;
    }
    buffer_.resize(4096);
    buffer_begin_ = 0;
    const ssize_t count = ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    buffer_.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count <= 0) {
      return count;
    }
  }
  const std::size_t count = std::min(size, buffer_.size() - buffer_begin_);
  std::copy_n(buffer_.begin() + static_cast<std::ptrdiff_t>(buffer_begin_), count, bytes);
  buffer_begin_ += count;
  return static_cast<ssize_t>(count);
}

ssize_t DeadlineStream::write(const char* bytes, std::size_t size) {
  const auto deadline = Clock::now() + kWriteLimit;
  std::size_t sent = 0;
  while (sent < size) {
    if (!wait_until_ready(socket_, POLLOUT, std::min(deadline, Clock::now() + kProgressLimit))) {
      return -1;
    }
    const ssize_t count = ::send(socket_, bytes + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno != EINTR && errno != EAGAIN) {
      return -1;
    }
    sent += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  }
  return static_cast<ssize_t>(sent);
}

void DeadlineStream::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}
void DeadlineStream::get_local_ip_and_port(std::string& ip, int& port) const { get_remote_ip_and_port(ip, port); }

BoundedServer::BoundedServer(std::size_t num_threads, std::size_t max_waiting) {
  new_task_queue = [num_threads, max_waiting] { return new BoundedQueue(num_threads, max_waiting); };
}

bool BoundedServer::process_and_close_socket(socket_t socket) {
  bool is_answered = false;
  if (!is_refusing) {
    DeadlineStream stream(socket);
    bool is_closed = false;
    is_answered = process_request(stream, true, is_closed, [](httplib::Request&) {});
  }
  ::shutdown(socket, SHUT_WR);
  if (is_answered) {
    drain(socket);
  }
  ::close(socket);
  return is_answered;
}

}  // namespace memopd::detail

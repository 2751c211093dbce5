#include "actors/call_executor.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace memopd {
namespace {

// Shared by the executor and its threads, so that a thread may outlive the executor.
struct Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> calls;
  std::size_t num_idle = 0;
  bool is_closed = false;
};

void serve(const std::shared_ptr<Queue>& queue) {
  std::unique_lock lock(queue->mutex);
  while (true) {
    ++queue->num_idle;
    queue->changed.wait(lock, [&] { return queue->is_closed || !queue->calls.empty(); });
    --queue->num_idle;
    if (queue->calls.empty()) {
      return;
    }
    auto call = std::move(queue->calls.front());
    queue->calls.pop_front();
    lock.unlock();
    call();
    call = nullptr;
    lock.lock();
  }
}

class ThreadedExecutor final : public CallExecutor {
 public:
  ThreadedExecutor() = default;
  ThreadedExecutor(const ThreadedExecutor&) = delete;
  ThreadedExecutor& operator=(const ThreadedExecutor&) = delete;
  ~ThreadedExecutor() override {
    const std::lock_guard lock(queue_->mutex);
    queue_->is_closed = true;
    queue_->calls.clear();
    queue_->changed.notify_all();
  }

  void run(std::function<void()> call) override {
    const std::lock_guard lock(queue_->mutex);
    queue_->calls.push_back(std::move(call));
    if (queue_->calls.size() > queue_->num_idle) {
      std::thread([queue = queue_] { serve(queue); }).detach();
    }
    queue_->changed.notify_one();
  }

 private:
  std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
};

class InlineExecutor final : public CallExecutor {
 public:
  void run(std::function<void()> call) override { call(); }
};

}  // namespace

std::unique_ptr<CallExecutor> make_threaded_executor() { return std::make_unique<ThreadedExecutor>(); }
std::unique_ptr<CallExecutor> make_inline_executor() { return std::make_unique<InlineExecutor>(); }

}  // namespace memopd

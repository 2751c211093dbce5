#include "policies/training/worker_threads.hpp"

#include <ATen/Parallel.h>

#include <exception>
#include <string>

namespace memopd {
namespace {

Expected<void> run_caught(const std::function<Expected<void>(std::int64_t)>& job, std::int64_t index) {
  try {
    return job(index);
  } catch (const std::exception& exception) {
    return unexpected(ErrorCode::internal,
                      std::string("micro-batch ") + std::to_string(index) + ": " + exception.what());
  }
}

}  // namespace

WorkerThreads::WorkerThreads(std::int32_t num_threads) {
  MEMOPD_CHECK(num_threads >= 1, "at least one worker thread");
  for (std::int32_t i = 0; i < num_threads; ++i) {
    threads_.emplace_back([this] { work(); });
  }
}

WorkerThreads::~WorkerThreads() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  has_job_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

Expected<void> WorkerThreads::run(std::int64_t count, const std::function<Expected<void>(std::int64_t)>& job) {
  std::unique_lock lock(mutex_);
  results_.assign(static_cast<std::size_t>(count), Expected<void>());
  next_ = 0;
  job_ = &job;
  has_job_.notify_all();
  has_ended_.wait(lock, [&] { return next_ == count && num_running_ == 0; });
  job_ = nullptr;
  for (const Expected<void>& result : results_) {
    MEMOPD_RETURN_IF_ERROR(result);
  }
  return {};
}

void WorkerThreads::work() {
  at::set_num_threads(1);
  std::unique_lock lock(mutex_);
  while (true) {
    has_job_.wait(
        lock, [&] { return is_stopping_ || (job_ != nullptr && next_ < static_cast<std::int64_t>(results_.size())); });
    if (is_stopping_) {
      return;
    }
    const std::int64_t index = next_++;
    const auto* const job = job_;
    ++num_running_;
    lock.unlock();
    Expected<void> result = run_caught(*job, index);
    lock.lock();
    results_[static_cast<std::size_t>(index)] = std::move(result);
    --num_running_;
    if (num_running_ == 0 && next_ == static_cast<std::int64_t>(results_.size())) {
      has_ended_.notify_all();
    }
  }
}

}  // namespace memopd

// Threads that compute micro-batches, one each at a time, without threads inside an operation.
//
// Each thread sets the tensor library's intra-operation threads to one. That library keeps part of this setting per
// process: whoever wants threads inside its operations must not share a process with a learner.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

class WorkerThreads {
 public:
  /// @param num_threads  >= 1
  explicit WorkerThreads(std::int32_t num_threads);
  ~WorkerThreads();
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  /// Runs job(0) .. job(count - 1), each once, on these threads; returns when all have ended. One caller at a time.
  /// @return  the error of the lowest index; an exception of a job becomes `internal`
  Expected<void> run(std::int64_t count, const std::function<Expected<void>(std::int64_t)>& job);

  [[nodiscard]] std::int32_t num_threads() const { return static_cast<std::int32_t>(threads_.size()); }

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable has_job_;
  std::condition_variable has_ended_;
  const std::function<Expected<void>(std::int64_t)>* job_ = nullptr;
  std::vector<Expected<void>> results_;
  std::int64_t next_ = 0;
  std::int64_t num_running_ = 0;
  bool is_stopping_ = false;
  std::vector<std::thread> threads_;
};

/// compute(0) .. compute(count - 1) on `threads`, consume(i, result) here and in order of i; at most num_threads results
/// exist at a time. So a sum over the results does not depend on which thread was first.
template <class Compute, class Consume>
Expected<void> compute_in_order(WorkerThreads& threads, std::size_t count, const Compute& compute,
                                const Consume& consume) {
  const auto wave = static_cast<std::size_t>(threads.num_threads());
  for (std::size_t begin = 0; begin < count; begin += wave) {
    const std::size_t size = std::min(wave, count - begin);
    std::vector<decltype(compute(std::size_t{0}))> results(size);
    MEMOPD_RETURN_IF_ERROR(threads.run(static_cast<std::int64_t>(size), [&](std::int64_t index) -> Expected<void> {
      results[static_cast<std::size_t>(index)] = compute(begin + static_cast<std::size_t>(index));
      return {};
    }));
    for (std::size_t i = 0; i < size; ++i) {
      consume(begin + i, std::move(results[i]));
    }
  }
  return {};
}

}  // namespace memopd

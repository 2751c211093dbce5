#include "policies/training/worker_threads.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <vector>

namespace memopd {

TEST_CASE("every job runs once, whatever the number of threads", "[worker_threads]") {
  for (const std::int32_t num_threads : {1, 2, 4}) {
    WorkerThreads threads(num_threads);
    std::vector<std::atomic<int>> runs(50);
    for (int round = 0; round < 3; ++round) {
      REQUIRE(threads.run(50, [&](std::int64_t i) -> Expected<void> {
        ++runs[static_cast<std::size_t>(i)];
        return {};
      }));
    }
    for (const auto& count : runs) {
      CHECK(count == 3);
    }
  }
}

TEST_CASE("the error of the lowest job is returned and an exception is one", "[worker_threads][error]") {
  WorkerThreads threads(2);
  const auto result = threads.run(8, [](std::int64_t i) -> Expected<void> {
    if (i == 2) {
      throw std::runtime_error("broken tensor");
    }
    return i == 5 ? Expected<void>(unexpected(ErrorCode::refused, "later")) : Expected<void>();
  });
  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::internal);
  CHECK(result.error().message == "micro-batch 2: broken tensor");
}

TEST_CASE("no jobs are done at once", "[worker_threads]") {
  WorkerThreads threads(2);
  CHECK(threads.run(0, [](std::int64_t) -> Expected<void> { return unexpected(ErrorCode::refused, "never"); }));
}

TEST_CASE("results are consumed in order", "[worker_threads][RL-6]") {
  WorkerThreads threads(3);
  std::vector<std::size_t> order;
  REQUIRE(compute_in_order(
      threads, 10, [](std::size_t i) { return i * i; },
      [&](std::size_t i, std::size_t&& square) {
        CHECK(square == i * i);
        order.push_back(i);
      }));
  CHECK(order == std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}

}  // namespace memopd

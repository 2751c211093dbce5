#include "runtime/collective/collective.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <thread>

#include "tests/unit/runtime/collective/rank_threads.hpp"

namespace memopd {
namespace {

using namespace std::chrono_literals;

using testing::on_every_rank;

TEST_CASE("all_reduce_sum adds in rank order, so its bits are those of a sequential sum", "[collective][RL-6]") {
  // 1e8 + 1 - 1e8 depends on the order in float32: ((1e8 + 1) - 1e8) = 0, (1e8 - 1e8) + 1 = 1.
  const std::vector<float> inputs{1e8F, 1.0F, -1e8F};
  const auto group = make_local_collective(3);
  std::vector<std::vector<float>> results(3);

  on_every_rank(3, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    for (int round = 0; round < 50; ++round) {
      results[r] = {inputs[r], static_cast<float>(rank), 0.5F, static_cast<float>(round)};
      if (!group[r]->all_reduce_sum(std::span<float>(results[r]))) {
        results[r] = {};
        return;
      }
    }
  });

  for (const auto& result : results) {
    CHECK(result == std::vector<float>{0.0F, 3.0F, 1.5F, 147.0F});
  }
}

TEST_CASE("all_reduce_sum of fewer elements than ranks, and of none, is complete", "[collective]") {
  const auto group = make_local_collective(3);
  std::vector<double> ones(3, 1.0);
  std::vector<int> empty_ok(3, 0);

  on_every_rank(3, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    empty_ok[r] = group[r]->all_reduce_sum(std::span<double>()) && group[r]->all_reduce_sum({&ones[r], 1}) ? 1 : 0;
  });

  CHECK(empty_ok == std::vector<int>{1, 1, 1});
  CHECK(ones == std::vector<double>{3, 3, 3});
}

TEST_CASE("reduce_scatter_sum leaves each rank its own shard of the sum", "[collective]") {
  const auto group = make_local_collective(2);
  const std::vector<std::vector<float>> inputs{{1, 2, 3, 4}, {10, 20, 30, 40}};
  std::vector<std::vector<float>> shards(2, std::vector<float>(2));

  on_every_rank(2, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    (void)group[r]->reduce_scatter_sum(inputs[r], shards[r]);
  });

  CHECK(shards[0] == std::vector<float>{11, 22});
  CHECK(shards[1] == std::vector<float>{33, 44});
}

TEST_CASE("broadcast gives every rank the bytes of the root", "[collective]") {
  const auto group = make_local_collective(3);
  std::vector<int> values{1, 2, 3};

  on_every_rank(3, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    (void)group[r]->broadcast(std::as_writable_bytes(std::span(&values[r], 1)), 2);
  });

  CHECK(values == std::vector<int>{3, 3, 3});
}

TEST_CASE("a missing rank ends the group with a timeout that names it", "[collective][error][CL-1]") {
  const auto group = make_local_collective(4);
  std::vector<std::string> messages(4);

  on_every_rank(4, [&](int rank) {
    if (rank == 1 || rank == 3) {
      return;
    }
    const auto r = static_cast<std::size_t>(rank);
    const auto result = group[r]->barrier(20ms);
    messages[r] = result ? "no error" : result.error().message;
  });

  CHECK(messages[0] == "barrier of 0: no arrival of rank 1, rank 3 within 20 ms");
  CHECK(messages[2] == messages[0]);
  // Whoever comes late learns the first cause at once instead of waiting again.
  const auto late = group[1]->barrier();
  REQUIRE_FALSE(late);
  CHECK(late.error().code == ErrorCode::timeout);
  CHECK(late.error().message == messages[0]);
}

TEST_CASE("ranks that disagree about the size all get an error that shows both", "[collective][error]") {
  const auto group = make_local_collective(2);
  std::vector<std::string> messages(2);

  on_every_rank(2, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    std::vector<float> values(r == 0 ? 8 : 4);
    const auto result = group[r]->all_reduce_sum(std::span<float>(values));
    messages[r] = result ? "no error" : result.error().message;
  });

  CHECK(messages[0] == "rank 1 called all_reduce_sum<float> of 4, rank 0 called all_reduce_sum<float> of 8");
  CHECK(messages[1] == messages[0]);
}

TEST_CASE("abort wakes the ranks that wait and refuses the later ones", "[collective][error]") {
  const auto group = make_local_collective(2);
  ErrorCode code = ErrorCode::internal;

  std::thread waiting([&] {
    const auto result = group[0]->barrier();
    code = result ? ErrorCode::internal : result.error().code;
  });
  group[1]->abort("a rank was killed");
  waiting.join();

  CHECK(code == ErrorCode::target_down);
  CHECK(group[1]->barrier().error().message == "collective aborted: a rank was killed");
}

TEST_CASE("an abort at any moment strands no rank in an operation", "[collective]") {
  // The third thread is no member: it aborts while the others are anywhere between arriving and leaving.
  std::atomic<int> round{0};
  std::atomic<int> num_done{0};
  constexpr int kRounds = 1000;
  std::vector<std::vector<std::shared_ptr<Collective>>> groups;
  for (int i = 0; i < kRounds; ++i) {
    groups.push_back(make_local_collective(2));
  }
  on_every_rank(3, [&](int thread) {
    for (int i = 0; i < kRounds; ++i) {
      auto& group = groups[static_cast<std::size_t>(i)];
      if (thread == 2) {
        group[0]->abort("any moment");
      } else {
        while (group[static_cast<std::size_t>(thread)]->barrier()) {
        }
      }
      // All threads enter the next round together.
      if (++num_done == 3 * (i + 1)) {
        round = i + 1;
      }
      while (round <= i) {
        std::this_thread::yield();
      }
    }
  });
  CHECK(num_done == 3 * kRounds);
}

TEST_CASE("a root outside the group and shards that do not fit are refused", "[collective][error]") {
  const auto alone = make_local_collective(1);
  std::vector<float> values(3);

  CHECK(alone[0]->broadcast({}, 1).error().message == "broadcast: root 1, allowed 0 to 0");
  CHECK(alone[0]->reduce_scatter_sum(values, std::span(values).first(2)).error().code == ErrorCode::invalid_argument);
  CHECK(alone[0]->all_reduce_sum(std::span<float>(values)));
}

}  // namespace
}  // namespace memopd

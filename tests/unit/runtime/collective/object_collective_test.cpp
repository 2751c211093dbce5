#include "runtime/collective/object_collective.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <thread>

#include "runtime/base/random.hpp"
#include "tests/unit/runtime/collective/rank_threads.hpp"

namespace memopd::testing {
namespace {

using namespace std::chrono_literals;
using Group = std::vector<std::shared_ptr<Collective>>;

/// Values whose sum depends on the order in the last bits.
template <class T>
std::vector<T> values_of(int rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>(std::ldexp(philox_uniform(static_cast<std::uint64_t>(rank), i, 0) - 0.5,
                                          static_cast<int>((i + static_cast<std::size_t>(rank)) % 20)));
  }
  return values;
}

/// What every rank has after every operation on `count` elements, as bytes.
template <class T>
std::vector<std::vector<std::byte>> all_operations(const Group& group, std::size_t count) {
  const std::size_t num_ranks = group.size();
  std::vector<std::vector<std::byte>> results(num_ranks);
  on_every_rank(static_cast<int>(num_ranks), [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    const auto keep = [&](std::span<const T> values) {
      const auto bytes = std::as_bytes(values);
      results[r].insert(results[r].end(), bytes.begin(), bytes.end());
    };
    auto values = values_of<T>(rank, count);
    auto wide = values_of<T>(rank + 100, count * num_ranks);
    bool is_ok = group[r]->all_reduce_sum(std::span<T>(values)).has_value();
    keep(values);
    const std::span<T> shard = std::span<T>(wide).subspan(r * count, count);
    is_ok = is_ok && group[r]->reduce_scatter_sum(std::span<const T>(wide), shard);
    is_ok = is_ok && group[r]->barrier();
    is_ok = is_ok && group[r]->all_gather(std::as_bytes(shard), std::as_writable_bytes(std::span<T>(wide)));
    keep(wide);
    is_ok = is_ok && group[r]->broadcast(std::as_writable_bytes(std::span<T>(wide)), static_cast<int>(num_ranks) - 1);
    keep(wide);
    if (!is_ok) {
      results[r].clear();
    }
  });
  return results;
}

TEST_CASE("every operation gives the bits that threads of one process get", "[collective][OC-1][RL-6]") {
  for (const int num_ranks : {1, 2, 3, 4}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{7}, std::size_t{100}}) {
      for (const std::size_t piece : {std::size_t{8}, std::size_t{40}, std::size_t{1000}, std::size_t{1} << 20}) {
        INFO(num_ranks << " ranks, " << count << " elements, pieces of " << piece << " bytes");
        const auto store = make_local_object_store();
        const auto group = make_object_group(*store, std::make_shared<ThreadMeeting>(), num_ranks, piece);
        const auto single = all_operations<float>(group, count);
        const auto wide = all_operations<double>(group, count);
        REQUIRE(single.front().size() == count * sizeof(float) * static_cast<std::size_t>(1 + 2 * num_ranks));
        CHECK(single == all_operations<float>(make_local_collective(num_ranks), count));
        CHECK(wide == all_operations<double>(make_local_collective(num_ranks), count));
      }
    }
  }
}

TEST_CASE("sums above the small size are made in slices, with the same bits", "[collective][OC-1][RL-6]") {
  const auto store = make_local_object_store();
  const auto meeting = std::make_shared<ThreadMeeting>();
  const auto group = make_object_group(*store, meeting, 3);
  constexpr std::size_t kCount = 20'000;

  CHECK(all_operations<double>(group, kCount) == all_operations<double>(make_local_collective(3), kCount));
}

TEST_CASE("operations of nothing end", "[collective]") {
  const auto store = make_local_object_store();
  const auto results = all_operations<float>(make_object_group(*store, std::make_shared<ThreadMeeting>(), 2), 0);
  const auto group = make_object_group(*store, std::make_shared<ThreadMeeting>(), 2);
  std::vector<int> is_ok(2, 0);
  on_every_rank(2, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    is_ok[r] = group[r]->all_reduce_sum(std::span<float>()) && group[r]->all_gather({}, {}) &&
                       group[r]->reduce_scatter_sum(std::span<const float>(), std::span<float>()) &&
                       group[r]->broadcast({}, 1)
                   ? 1
                   : 0;
  });

  CHECK(is_ok == std::vector<int>{1, 1});
  CHECK(results == std::vector<std::vector<std::byte>>(2));
}

TEST_CASE("a rank has no more than two pieces in the store, and none at the end", "[collective][OC-2]") {
  const auto store = make_local_object_store();
  std::size_t most = 0;
  {
    const auto group = make_object_group(*store, std::make_shared<ThreadMeeting>(), 2, 800);
    std::vector<std::size_t> seen(2, 0);
    on_every_rank(2, [&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      std::vector<double> values(10'000, 1.0);
      for (int round = 0; round < 5; ++round) {
        (void)group[r]->all_reduce_sum(std::span<double>(values));
        seen[r] = std::max(seen[r], static_cast<std::size_t>(store->counters().size_bytes));
      }
    });
    most = std::max(seen[0], seen[1]);
  }
  CHECK(store->counters().num_put > 100);
  CHECK(most > 0);
  CHECK(most <= 2 * 2 * 800);
  CHECK(store->counters().num_objects == 0);
}

TEST_CASE("a rank that does not come ends the operation of the others by name", "[collective][R4][CL-1][error]") {
  const auto store = make_local_object_store();
  const auto meeting = std::make_shared<ThreadMeeting>();
  const auto group = make_object_group(*store, meeting, 3);
  std::vector<std::string> messages(3);
  std::thread deadline([&] { meeting->expire_when_waiting(2, 0, 0, 1000ms); });
  on_every_rank(3, [&](int rank) {
    if (rank != 1) {
      std::vector<float> values(4);
      const auto result = group[static_cast<std::size_t>(rank)]->all_reduce_sum(std::span<float>(values), 1000ms);
      messages[static_cast<std::size_t>(rank)] = result ? "no error" : result.error().message;
    }
  });
  deadline.join();

  CHECK(messages[0] == "all_reduce_sum<float> of 4: no arrival of rank 1 within 1000 ms");
  CHECK(messages[2] == messages[0]);
  CHECK(group[0]->barrier().error().message == messages[0]);  // the first cause, without a new wait
}

TEST_CASE("an abort wakes whoever waits and refuses the later operations", "[collective][error]") {
  const auto store = make_local_object_store();
  const auto meeting = std::make_shared<ThreadMeeting>();
  const auto group = make_object_group(*store, meeting, 2);
  ErrorCode code = ErrorCode::internal;
  std::thread waiting([&] { code = group[0]->barrier().error().code; });
  group[1]->abort("a rank was killed");
  waiting.join();

  CHECK(code == ErrorCode::target_down);
  CHECK(group[1]->barrier().error().message == "collective aborted: a rank was killed");
}

/// Whoever returns from it finds that nothing is there any more.
class ForgetfulMeeting final : public RankMeeting {
 public:
  explicit ForgetfulMeeting(ObjectStore& objects) : objects_(objects) {}
  Expected<RanksMet> meet(RankArrival arrival) override {
    auto met = place_.meet(std::move(arrival));
    objects_.release_scope(scope_of_generation(0));
    return met;
  }
  void abort(std::int64_t generation, const std::string& reason) override { place_.abort(generation, reason); }

 private:
  ObjectStore& objects_;
  ThreadMeeting place_;
};

TEST_CASE("an object that is gone is named by its rank and ends the group", "[collective][error]") {
  const auto store = make_local_object_store();
  const auto group = make_object_group(*store, std::make_shared<ForgetfulMeeting>(*store), 2);
  std::vector<std::string> messages(2);
  on_every_rank(2, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    std::vector<float> values(4);
    messages[r] = group[r]->all_reduce_sum(std::span<float>(values)).error().message;
    CHECK_FALSE(group[r]->barrier());
  });

  CHECK(messages[0].find("collective: what rank 1 brought cannot be had: object ") == 0);
}

TEST_CASE("a rank of an earlier generation takes no part in a later", "[collective][OC-3][CL-2]") {
  const auto store = make_local_object_store();
  const auto meeting = std::make_shared<ThreadMeeting>();
  const auto old = make_object_group(*store, meeting, 2, 64, 0);
  const auto fresh = make_object_group(*store, meeting, 2, 64, 1);
  std::vector<float> values{1.0F};
  std::vector<float> stale{100.0F};
  std::vector<float> other{2.0F};
  std::thread first([&] { (void)fresh[0]->all_reduce_sum(std::span<float>(values)); });
  meeting->expire_when_waiting(1, 99, 0, 1ms);  // it waits: generation 1 has begun
  const auto refused = old[1]->all_reduce_sum(std::span<float>(stale));
  (void)fresh[1]->all_reduce_sum(std::span<float>(other));
  first.join();

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::refused);
  CHECK(values == std::vector<float>{3.0F});
}

TEST_CASE("ranks that disagree about the size are told both sizes", "[collective][error]") {
  const auto store = make_local_object_store();
  const auto group = make_object_group(*store, std::make_shared<ThreadMeeting>(), 2);
  std::vector<std::string> messages(2);
  on_every_rank(2, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    std::vector<float> values(r == 0 ? 8 : 4);
    messages[r] = group[r]->all_reduce_sum(std::span<float>(values)).error().message;
  });

  CHECK(messages[0] == "rank 1 called all_reduce_sum<float> of 4, rank 0 called all_reduce_sum<float> of 8");
  CHECK(messages[1] == messages[0]);
}

}  // namespace
}  // namespace memopd::testing

// What only the form with threads can show.
#include <atomic>
#include <catch2/catch.hpp>
#include <latch>
#include <thread>

#include "tests/unit/runtime/actor/test_actors.hpp"

namespace memopd::testing {
namespace {

using namespace std::chrono_literals;

/// Two moments of a handler that the test controls.
struct Gate {
  std::latch entered{1};
  std::latch may_leave{1};
};
std::atomic<Gate*> gate{nullptr};

/// Add waits at the gate; Hold is answered from a thread of its own.
class Blocker final : public Actor {
  void setup() override {
    on(&Blocker::add);
    on(&Blocker::hold);
    on(&Blocker::where);
  }
  Expected<Total> add(const Add& request) {
    Gate& here = *gate.load();
    here.entered.count_down();
    here.may_leave.wait();
    return Total{request.amount};
  }
  Later<Total> hold(const Hold&) {
    auto promise = make_promise<Total>();
    auto later = promise.later();
    std::thread([promise = std::move(promise)]() mutable { promise.deliver(Total{77}); }).detach();
    return later.then([this](const Expected<Total>& total) { return Total{total->value + (is_here() ? 1 : 0)}; });
  }
  Expected<Text> where(const Text&) {
    return Text{thread_ == std::this_thread::get_id() ? "same thread" : "another thread"};
  }
  void started() override { thread_ = std::this_thread::get_id(); }
  bool is_here() const { return std::this_thread::get_id() == thread_; }

  std::thread::id thread_;
};
MEMOPD_REGISTER_ACTOR("test_blocker", Blocker)

TEST_CASE("a blocking actor has its own thread and delays nobody", "[actor][R8]") {
  // One scheduler thread; the blocking handler is inside its call while the others go on.
  Gate here;
  gate = &here;
  const auto cluster = make_local_cluster({.threads = 1});
  const ActorRef blocker = cluster->spawn("test_blocker", {.blocking = true}, "blocker")[0];
  const ActorRef counter = cluster->spawn("test_counter", {}, "counter")[0];
  auto blocked = cluster->ask<Total>(blocker, Add{1}, 1h);
  here.entered.wait();

  CHECK(cluster->ask<Total>(counter, Add{2}, 1h).get()->value == 2);
  CHECK(cluster->topology().actors[0].current_call == "Add");

  here.may_leave.count_down();
  CHECK(blocked.get()->value == 1);
  CHECK(cluster->ask<Text>(blocker, Text{}, 1h).get()->text == "same thread");
}

TEST_CASE("a full mailbox answers overloaded to ask and to tell", "[actor][error]") {
  Gate here;
  gate = &here;
  const auto cluster = make_local_cluster();
  const ActorRef blocker = cluster->spawn("test_blocker", {.blocking = true, .max_mailbox = 2}, "blocker")[0];
  auto first = cluster->ask<Total>(blocker, Add{1}, 1h);
  here.entered.wait();
  auto second = cluster->ask<Text>(blocker, Text{}, 1h);
  REQUIRE(cluster->tell(blocker, Text{}));

  const auto told = cluster->tell(blocker, Text{});
  const auto asked = cluster->ask<Text>(blocker, Text{}, 1h).get();

  REQUIRE_FALSE(told);
  CHECK(told.error().code == ErrorCode::overloaded);
  CHECK(told.error().message == "mailbox of blocker/0 is full: 2 messages wait");
  CHECK(asked.error().code == ErrorCode::overloaded);
  here.may_leave.count_down();
  CHECK(first.get());
  CHECK(second.get());
  CHECK(cluster->tell(blocker, Text{}));
}

TEST_CASE("shutdown names who survives it and does not hang", "[actor][error][CL-4][R11]") {
  const LogCapture log;
  Gate here;
  gate = &here;
  const auto cluster = make_local_cluster();
  const ActorRef blocker = cluster->spawn("test_blocker", {.blocking = true}, "stuck")[0];
  auto blocked = cluster->ask<Total>(blocker, Add{1}, 1h);
  here.entered.wait();

  CHECK(cluster->shutdown(1ms).survivors == std::vector<std::string>{"stuck/0"});
  CHECK(log.lines("survived_shutdown") == std::vector<std::string>{"warning actor survived_shutdown actor=stuck/0"});

  here.may_leave.count_down();
  CHECK(cluster->shutdown(1h).survivors.empty());
}

TEST_CASE("a promise may be delivered from any thread; the continuation runs on the actor", "[actor]") {
  const auto cluster = make_local_cluster();
  const ActorRef blocker = cluster->spawn("test_blocker", {.blocking = true}, "blocker")[0];

  CHECK(cluster->ask<Total>(blocker, Hold{}, 1h).get()->value == 78);
}

TEST_CASE("many clients and actors at once: every ask is answered and no addition is lost", "[actor]") {
  const auto cluster = make_local_cluster({.threads = 2});
  const auto counters = cluster->spawn("test_counter", {.count = 4}, "counters");
  std::atomic<int> num_answered{0};
  std::vector<std::thread> clients;
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      std::vector<Future<Total>> futures;
      for (int i = 0; i < 500; ++i) {
        futures.push_back(cluster->ask<Total>(counters[static_cast<std::size_t>((i + client) % 4)], Add{1}, 1h));
      }
      for (auto& future : futures) {
        num_answered += future.get() ? 1 : 0;
      }
    });
  }
  for (auto& client : clients) {
    client.join();
  }

  std::int64_t sum = 0;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    sum += cluster->ask<Total>(counters[rank], Add{0}, 1h).get()->value;
  }
  CHECK(num_answered == 2000);
  CHECK(sum == 2000);
}

TEST_CASE("asks racing with death are all answered, each once", "[actor][error][CL-1]") {
  const LogCapture log;
  for (int round = 0; round < 50; ++round) {
    const auto cluster = make_local_cluster();
    const ActorRef counter = cluster->spawn("test_counter", {}, "counter")[0];
    std::vector<Future<Total>> futures;
    for (int i = 0; i < 50; ++i) {
      futures.push_back(cluster->ask<Total>(counter, Add{i == 25 ? -1 : 1}, 1h));
    }
    int num_values = 0;
    int num_internal = 0;
    int num_down = 0;
    for (auto& future : futures) {
      const auto answer = future.get();
      num_values += answer ? 1 : 0;
      num_internal += !answer && answer.error().code == ErrorCode::internal ? 1 : 0;
      num_down += !answer && answer.error().code == ErrorCode::target_down ? 1 : 0;
    }
    REQUIRE(num_values == 25);
    REQUIRE(num_internal == 1);
    REQUIRE(num_down == 24);
  }
}

TEST_CASE("options that cannot work are refused", "[actor][error]") {
  CHECK(make_local_cluster_checked({.threads = 0}).error().message == "threads of the cluster: 0, allowed >= 1");
  CHECK(make_local_cluster_checked({.policy = "fair"}).error().message ==
        "scheduling policy \"fair\", allowed: sharing, stealing");
  CHECK(make_local_cluster_checked({.policy = "stealing"}));
}

TEST_CASE("local ask round trips per second", "[actor][slow]") {
  const auto cluster = make_local_cluster({.threads = 2});
  const ActorRef counter = cluster->spawn("test_counter", {}, "counter")[0];
  (void)cluster->spawn("test_pinger", {}, "pinger");
  const ActorRef pinger = (*cluster->find("pinger"))[0];
  constexpr std::int64_t kRounds = 200'000;

  const auto start = std::chrono::steady_clock::now();
  REQUIRE(cluster->ask<void>(pinger, Burst{kRounds}, 1h).get());
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;

  WARN("actor to actor: " << static_cast<std::int64_t>(kRounds / elapsed.count()) << " round trips/s");
  CHECK(cluster->ask<Total>(counter, Add{0}, 1h).get()->value == kRounds);
}

/// Asks the counter `count` times, one after the other.
class Pinger final : public Actor {
  void setup() override { on(&Pinger::burst); }
  Later<void> burst(const Burst& request) {
    left_ = request.count;
    done_ = make_promise<void>();
    counter_ = (*cluster().find("counter"))[0];
    next();
    return done_.later();
  }
  void next() {
    if (left_-- == 0) {
      done_.deliver({});
      return;
    }
    ask<Total>(counter_, Add{1}, 1h).then([this](const Expected<Total>&) { next(); });
  }
  std::int64_t left_ = 0;
  Promise<void> done_;
  ActorRef counter_;
};
MEMOPD_REGISTER_ACTOR("test_pinger", Pinger)

}  // namespace
}  // namespace memopd::testing

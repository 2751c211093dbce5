// What every kind of cluster promises while all goes well; the same tests run on each.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "runtime/actor/actor_pool.hpp"
#include "tests/unit/runtime/actor/test_actors.hpp"

namespace memopd::testing {
namespace {

using namespace std::chrono_literals;

std::string kind() { return GENERATE(from_range(cluster_kinds())); }

TEST_CASE("an ask is answered with the handler's value", "[actor][CL-1]") {
  const auto cluster = make_cluster(kind());
  auto counters = cluster->spawn("test_counter", {.count = 4, .cpus = 1}, "counters");

  CHECK(cluster->ask<Total>(counters[2], Add{5}, 1h).get()->value == 5);
  CHECK(cluster->ask<Total>(counters[2], Add{6}, 1h).get()->value == 11);
  CHECK(cluster->ask<Total>(counters[3], Add{1}, 1h).get()->value == 1);
  CHECK(counters[2].name() == "counters/2");
}

TEST_CASE("messages of one sender arrive in the order they were sent", "[actor]") {
  const auto cluster = make_cluster(kind());
  const ActorRef counter = cluster->spawn("test_counter", {}, "counter")[0];
  const ActorRef relay = cluster->spawn("test_relay", {}, "relay", RelayInit{"counter"})[0];
  std::vector<std::int64_t> expected;

  SECTION("from an actor") { REQUIRE(cluster->ask<void>(relay, Burst{500}, 1h).get()); }
  SECTION("from outside") {
    for (std::int64_t i = 1; i <= 500; ++i) {
      REQUIRE(cluster->tell(counter, Add{i}));
    }
  }
  for (std::int64_t i = 1; i <= 500; ++i) {
    expected.push_back(i);
  }

  CHECK(cluster->ask<Numbers>(counter, Recorded{}, 1h).get()->values == expected);
}

TEST_CASE("a continuation runs on its actor and may ask again", "[actor]") {
  const auto cluster = make_cluster(kind());
  (void)cluster->spawn("test_counter", {}, "counter");
  const ActorRef relay = cluster->spawn("test_relay", {}, "relay", RelayInit{"counter"})[0];

  CHECK(cluster->ask<Total>(relay, AddTwice{21}, 1h).get()->value == 42);
}

TEST_CASE("other messages are handled while a Later is pending", "[actor]") {
  const auto cluster = make_cluster(kind());
  const ActorRef counter = cluster->spawn("test_counter", {}, "counter")[0];

  auto first = cluster->ask<Total>(counter, Hold{}, 1h);
  auto second = cluster->ask<Total>(counter, Hold{}, 1h);
  CHECK(cluster->ask<Total>(counter, Add{3}, 1h).get()->value == 3);
  REQUIRE(cluster->ask<void>(counter, Open{9}, 1h).get());

  CHECK(first.get()->value == 9);
  CHECK(second.get()->value == 9);
}

TEST_CASE("wait returns as soon as n of many answers are there", "[actor]") {
  const auto cluster = make_cluster(kind());
  const auto counters = cluster->spawn("test_counter", {.count = 3}, "counters");
  std::vector<Future<Total>> futures;
  futures.push_back(cluster->ask<Total>(counters[0], Hold{}, 1h));
  futures.push_back(cluster->ask<Total>(counters[1], Add{1}, 1h));
  futures.push_back(cluster->ask<Total>(counters[2], Add{2}, 1h));

  CHECK(wait(futures, 2) == std::vector<std::size_t>{1, 2});
  CHECK_FALSE(futures[0].wait_for(0ms));
  REQUIRE(cluster->ask<void>(counters[0], Open{7}, 1h).get());
  CHECK(wait(futures, 99) == std::vector<std::size_t>{0, 1, 2});
  CHECK(futures[0].get()->value == 7);
}

TEST_CASE("a group is found by its name", "[actor]") {
  const auto cluster = make_cluster(kind());
  const auto spawned = cluster->spawn("test_counter", {.count = 2}, "counters");

  const auto found = cluster->find("counters");

  REQUIRE(found);
  CHECK(found->size() == 2);
  CHECK((*found)[1] == spawned[1]);
}

TEST_CASE("spawn refuses what it cannot start, and starts nothing of it", "[actor][error][pain:T31]") {
  const auto cluster = make_cluster(kind());
  REQUIRE(cluster->spawn("test_counter", {}, "counters"));
  const auto error = [&](auto&&... args) {
    const auto group = cluster->spawn(args...);
    return group ? Error{} : group.error();
  };

  CHECK(error("test_countr", SpawnOptions{}, "x").message ==
        "no actor class is registered as \"test_countr\"; did you mean \"test_counter\"");
  CHECK(error("test_counter", SpawnOptions{}, "counters").code == ErrorCode::already_exists);
  CHECK(error("test_counter", SpawnOptions{.count = 0}, "x").message == "group x: count 0, allowed >= 1");
  CHECK(error("test_counter", SpawnOptions{.max_mailbox = 0}, "x").code == ErrorCode::invalid_argument);
  CHECK(error("test_counter", SpawnOptions{}, "a/b").code == ErrorCode::invalid_argument);
  CHECK(error("test_relay", SpawnOptions{}, "x").message ==
        "actor class \"test_relay\" takes init message RelayInit v1, found none");
  CHECK(error("test_relay", SpawnOptions{}, "x", Text{"counters"}).code == ErrorCode::bad_schema);
  CHECK(cluster->find("countrs").error().message == "no group is named \"countrs\"; did you mean \"counters\"");
  CHECK(cluster->topology().actors.size() == 1);
}

TEST_CASE("a member of a failed spawn answers with the error of the spawn", "[actor][error]") {
  const auto cluster = make_cluster(kind());
  auto group = cluster->spawn("test_countr", {}, "counters");

  const auto answer = cluster->ask<Total>(group[2], Add{1}, 1h).get();

  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == ErrorCode::target_down);
  CHECK_THAT(answer.error().message, Catch::Contains("spawn failed: no actor class"));
}

TEST_CASE("the topology shows actors, edges and who waits for whom", "[actor][pain:L15]") {
  const auto cluster = make_cluster(kind());
  const ActorRef counter = cluster->spawn("test_counter", {}, "counter")[0];
  const ActorRef relay = cluster->spawn("test_relay", {.max_mailbox = 8}, "relay", RelayInit{"counter"})[0];
  REQUIRE(cluster->ask<void>(relay, Burst{3}, 1h).get());
  REQUIRE(cluster->ask<Total>(counter, Add{1}, 1h).get());

  const Topology topology = cluster->topology();

  REQUIRE(topology.actors.size() == 2);
  CHECK(topology.actors[0].name == "counter/0");
  CHECK(topology.actors[0].num_handled == 4);
  CHECK(topology.actors[1].type == "test_relay");
  CHECK(topology.actors[1].max_mailbox == 8);
  CHECK(topology.actors[1].state == ActorState::running);
  REQUIRE(topology.edges.size() == 3);
  CHECK(topology.edges[0].from == "client");
  CHECK(topology.edges[2].from == "relay/0");
  CHECK(topology.edges[2].to == "counter/0");
  CHECK(topology.edges[2].num_messages == 3);
  CHECK(topology.edges[2].size_bytes == 3 * static_cast<std::int64_t>(sizeof(Add)));

  const nlohmann::json json = topology;
  CHECK(json["actors"][1]["state"] == "running");
  CHECK(json["edges"][2]["num_messages"] == 3);
  CHECK(json["first_failure"].is_null());
}

TEST_CASE("shutdown ends actors that hold each other, renew timers and wait", "[actor][CL-4][R11]") {
  // The relay holds a reference to the counter, the watcher watches it, a Hold is pending, and the test keeps all handles.
  const auto cluster = make_cluster(kind());
  const ActorRef counter = cluster->spawn("test_counter", {}, "counter")[0];
  const ActorRef relay = cluster->spawn("test_relay", {}, "relay", RelayInit{"counter"})[0];
  const ActorRef cyclic = cluster->spawn("test_cycle", {.count = 2}, "cycle")[0];
  auto held = cluster->ask<Total>(counter, Hold{}, 1h);
  REQUIRE(cluster->ask<Total>(relay, AddTwice{1}, 1h).get());
  REQUIRE(cluster->ask<void>(cyclic, Hold{}, 1h).get());

  CHECK(cluster->shutdown(1h).survivors.empty());

  const auto answer = held.get();
  REQUIRE_FALSE(answer);
  CHECK(answer.error().message == "counter/0 is down: stopped: shutdown");
  CHECK_FALSE(relay.is_alive());
  CHECK(cluster->spawn("test_counter", {}, "late").error().code == ErrorCode::refused);
  CHECK_FALSE(cluster->first_failure());
}

TEST_CASE("a reference outlives its cluster and answers target_down", "[actor][error]") {
  const auto cluster_kind = kind();
  auto first = make_cluster(cluster_kind);
  const ActorRef counter = first->spawn("test_counter", {}, "counter")[0];
  auto pending = first->ask<Total>(counter, Hold{}, 1h);
  first.reset();
  const auto second = make_cluster(cluster_kind);

  CHECK(second->tell(counter, Add{1}).error().code == ErrorCode::target_down);
  CHECK(pending.get().error().code == ErrorCode::target_down);
  CHECK(second->tell(ActorRef(), Add{1}).error().message == "nobody is not an actor");
}

/// Two actors that hold each other's handle, keep a timer that renews itself, and ask one another for ever.
class Cycle final : public Actor {
  void setup() override {
    on(&Cycle::hold);
    on(&Cycle::tick);
  }
  void started() override { peer_ = (*cluster().find("cycle"))[static_cast<std::size_t>(1 - rank())]; }
  Expected<void> hold(const Hold&) {
    keep_ = std::make_shared<std::function<void()>>();
    *keep_ = [keep = keep_, peer = peer_] {};  // a cycle of ownership in the actor's own state
    after(1ms, Open{});
    return {};
  }
  Expected<void> tick(const Open&) {
    after(1h, Open{});
    return {};
  }
  ActorRef peer_;
  std::shared_ptr<std::function<void()>> keep_;
};
MEMOPD_REGISTER_ACTOR("test_cycle", Cycle)

/// Spreads `Burst` asks over the group "counters" through a pool and answers how many each member got in flight.
class Spreader final : public Actor {
  void setup() override {
    on(&Spreader::burst);
    on(&Spreader::in_flight);
  }
  void started() override { pool_ = ActorPool(*cluster().find("counters")); }
  Expected<Numbers> burst(const Burst& request) {
    for (std::int64_t i = 0; i < request.count; ++i) {
      pool_.ask<Total>(*this, Hold{}, 1h);
    }
    return counts();
  }
  Expected<Numbers> in_flight(const Recorded&) { return counts(); }
  Numbers counts() {
    Numbers numbers;
    for (const ActorRef& member : pool_.group()) {
      numbers.values.push_back(pool_.in_flight(member));
    }
    return numbers;
  }
  ActorPool pool_;
};
MEMOPD_REGISTER_ACTOR("test_spreader", Spreader)

TEST_CASE("a pool asks the member with the fewest in flight and passes over the dead", "[actor]") {
  const auto cluster = make_cluster(kind());
  const auto counters = cluster->spawn("test_counter", {.count = 3}, "counters");
  const ActorRef spreader = cluster->spawn("test_spreader", {}, "spreader")[0];

  CHECK(cluster->ask<Numbers>(spreader, Burst{4}, 1h).get()->values == std::vector<std::int64_t>{2, 1, 1});
  // Two answers leave member 0 idle: the next two asks go there.
  REQUIRE(cluster->ask<void>(counters[0], Open{1}, 1h).get());
  REQUIRE(
      cluster->ask<Total>(counters[0], Add{0}, 1h).get());  // a turn later: its answers are in the spreader's mailbox
  CHECK(cluster->ask<Numbers>(spreader, Burst{1}, 1h).get()->values == std::vector<std::int64_t>{1, 1, 1});

  const ActorRef watcher = cluster->spawn("test_watcher", {}, "watcher", RelayInit{"counters"})[0];
  cluster->stop(counters[0], "no longer needed");
  REQUIRE(cluster->ask<Text>(watcher, NextDown{}, 1h).get());
  CHECK(cluster->ask<Numbers>(spreader, Burst{2}, 1h).get()->values == std::vector<std::int64_t>{0, 2, 2});
}

}  // namespace
}  // namespace memopd::testing

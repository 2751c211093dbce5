// Actors that are started again: references stay good, nothing reaches an earlier start, idempotent asks go on.
#include <catch2/catch.hpp>

#include "tests/unit/runtime/actor/test_actors.hpp"

namespace memopd::testing {
namespace {

using namespace std::chrono_literals;

struct Look {};
MEMOPD_MESSAGE(Look, 1)
MEMOPD_IDEMPOTENT(Look)
struct Start {
  std::int64_t incarnation = 0;
};
MEMOPD_MESSAGE(Start, 1, incarnation)

/// Counts what came to this start of it; never answers Hold.
class Phoenix final : public Actor {
  void setup() override {
    on(&Phoenix::add);
    on(&Phoenix::look);
    on(&Phoenix::hold);
    on(&Phoenix::burn);
  }
  Expected<Total> add(const Add& request) { return Total{total_ += request.amount}; }
  Later<Start> look(const Look&) {
    if (incarnation() == 1) {
      kept_.push_back(make_promise<Start>());
      return kept_.back().later();
    }
    return Later<Start>::ready(Start{incarnation()});
  }
  Later<Total> hold(const Hold&) {
    held_.push_back(make_promise<Total>());
    return held_.back().later();
  }
  Expected<void> burn(const Fail& request) {
    fail({ErrorCode::internal, request.cause});
    return {};
  }
  std::int64_t total_ = 0;
  std::vector<Promise<Start>> kept_;
  std::vector<Promise<Total>> held_;
};
MEMOPD_REGISTER_ACTOR("test_phoenix", Phoenix)

struct Nest {
  std::vector<Down> downs;
  std::unique_ptr<DeterministicCluster> cluster =
      make_deterministic_cluster({.on_failure = [this](const Down& down) { downs.push_back(down); },
                                  .is_returning = [](const Down&) { return true; }});
  ActorRef phoenix = cluster->spawn("test_phoenix", {}, "phoenix")[0];
};

TEST_CASE("what is sent to an actor that is being restarted waits for it", "[actor][restart]") {
  Nest nest;
  nest.cluster->run();
  nest.cluster->kill(nest.phoenix, "test");
  auto first = nest.cluster->ask<Total>(nest.phoenix, Add{1}, 1s);
  auto second = nest.cluster->ask<Total>(nest.phoenix, Add{2}, 1s);
  nest.cluster->run();
  CHECK_FALSE(nest.phoenix.is_alive());
  CHECK(nest.phoenix.is_expected());

  REQUIRE(nest.cluster->restart(nest.phoenix));

  CHECK(first.get()->value == 1);
  CHECK(second.get()->value == 3);
  CHECK(nest.phoenix.is_alive());
  CHECK_FALSE(nest.cluster->first_failure());
}

TEST_CASE("an ask that had arrived before a restart is answered with target_down", "[actor][restart]") {
  Nest nest;
  auto held = nest.cluster->ask<Total>(nest.phoenix, Hold{}, 1s);
  nest.cluster->run();

  nest.cluster->kill(nest.phoenix, "kill -9");
  const auto answer = held.get();

  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == ErrorCode::target_down);
  CHECK(answer.error().message == "phoenix/0 is being restarted: killed: kill -9");
}

TEST_CASE("a message on its way to the earlier start never reaches the later one", "[actor][restart][CL-2]") {
  Nest nest;
  nest.cluster->run();
  nest.cluster->set_faults([](const Delivery&) { return Fault{.delay = 10ms}; });
  auto late = nest.cluster->ask<Total>(nest.phoenix, Add{5}, 1s);
  nest.cluster->set_faults({});
  nest.cluster->kill(nest.phoenix, "test");
  REQUIRE(nest.cluster->restart(nest.phoenix));

  const auto answer = late.get();
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == ErrorCode::target_down);
  CHECK(nest.cluster->ask<Total>(nest.phoenix, Add{1}, 1s).get()->value == 1);
}

TEST_CASE("an idempotent ask is asked again of the later start", "[actor][restart]") {
  Nest nest;
  auto look = nest.cluster->ask<Start>(nest.phoenix, Look{}, 10s);
  nest.cluster->run();
  nest.cluster->call_after(100ms, [&] { nest.cluster->kill(nest.phoenix, "test"); });
  nest.cluster->call_after(300ms, [&] { REQUIRE(nest.cluster->restart(nest.phoenix)); });

  const auto answer = look.get();

  REQUIRE(answer);
  CHECK(answer->incarnation == 2);
  CHECK(nest.cluster->now() == 300ms);
}

TEST_CASE("an actor that fails and returns tells whoever watches, and is no first failure", "[actor][restart]") {
  Nest nest;
  REQUIRE(nest.cluster->tell(nest.phoenix, Fail{"ashes"}));
  nest.cluster->run();

  REQUIRE(nest.downs.size() == 1);
  CHECK(nest.downs[0].may_return);
  CHECK(nest.downs[0].reason == "internal: ashes");
  CHECK(nest.cluster->topology().actors[0].state == ActorState::restarting);
  CHECK_FALSE(nest.cluster->first_failure());
}

TEST_CASE("a mailbox that was full when its actor died takes messages again afterwards", "[actor][restart]") {
  Nest nest;
  const ActorRef small = nest.cluster->spawn("test_phoenix", {.max_mailbox = 2}, "small")[0];
  nest.cluster->run();
  REQUIRE(nest.cluster->tell(small, Add{1}));
  REQUIRE(nest.cluster->tell(small, Add{1}));
  nest.cluster->kill(small, "test");
  REQUIRE(nest.cluster->restart(small));
  nest.cluster->run();

  CHECK(nest.cluster->tell(small, Add{1}));
  CHECK(nest.cluster->tell(small, Add{1}));
}

}  // namespace
}  // namespace memopd::testing

#include "runtime/actor/deterministic_cluster.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/runtime/actor/test_actors.hpp"

namespace memopd::testing {
namespace {

using namespace std::chrono_literals;

/// Records when (virtual ms) which of its messages came.
class Clock final : public Actor {
  void setup() override {
    on(&Clock::add);
    on(&Clock::slice);
    on(&Clock::slow);
    on(&Clock::log);
  }
  void add(const Add& timer) { after(std::chrono::milliseconds(timer.amount), Text{std::to_string(timer.amount)}); }
  void slice(const Burst& job) {
    log_ += "slice" + std::to_string(job.count) + " ";
    if (job.count > 1) {
      again(Burst{job.count - 1});
    }
  }
  Expected<void> slow(const Open& request) {
    dynamic_cast<DeterministicCluster&>(cluster()).advance(std::chrono::milliseconds(request.value));
    return {};
  }
  Expected<Text> log(const Text& entry) {
    if (!entry.text.empty()) {
      log_ += entry.text + "@" + std::to_string(now() / 1ms) + " ";
    }
    return Text{log_};
  }
  std::string log_;
};
MEMOPD_REGISTER_ACTOR("test_clock", Clock)

TEST_CASE("timers fire in virtual time, in order of their due time", "[actor]") {
  const auto cluster = make_deterministic_cluster();
  const ActorRef clock = cluster->spawn("test_clock", {}, "clock")[0];
  for (const std::int64_t delay : {30, 10, 20}) {
    REQUIRE(cluster->tell(clock, Add{delay}));
  }

  cluster->run();
  CHECK(cluster->ask<Text>(clock, Text{}, 1ms).get()->text.empty());
  cluster->run_for(15ms);
  CHECK(cluster->ask<Text>(clock, Text{}, 1ms).get()->text == "10@10 ");
  cluster->run_for(15ms);

  CHECK(cluster->ask<Text>(clock, Text{}, 1ms).get()->text == "10@10 20@20 30@30 ");
  CHECK(cluster->now() == 30ms);
}

TEST_CASE("again queues behind what waits already", "[actor]") {
  const auto cluster = make_deterministic_cluster();
  const ActorRef clock = cluster->spawn("test_clock", {}, "clock")[0];
  REQUIRE(cluster->tell(clock, Burst{3}));
  REQUIRE(cluster->tell(clock, Text{"between"}));

  cluster->run();

  CHECK(cluster->ask<Text>(clock, Text{}, 1ms).get()->text == "slice3 between@0 slice2 slice1 ");
}

TEST_CASE("a cooperative handler above 50 ms is logged once per actor and message", "[actor]") {
  const LogCapture log;
  const auto cluster = make_deterministic_cluster();
  const auto clocks = cluster->spawn("test_clock", {.count = 2}, "clock");
  const ActorRef blocking = cluster->spawn("test_clock", {.blocking = true}, "blocking")[0];

  for (const std::int64_t duration : {50, 51, 90}) {
    REQUIRE(cluster->ask<void>(clocks[0], Open{duration}, 1s).get());
  }
  REQUIRE(cluster->ask<void>(blocking, Open{90}, 1s).get());

  CHECK(log.lines("slow_handler") ==
        std::vector<std::string>{"warning actor slow_handler actor=clock/0 message=Open duration_ms=51 "
                                 "advice=\"spawn it blocking, or yield with again()\""});
}

TEST_CASE("a full mailbox answers overloaded until the actor has caught up", "[actor][error]") {
  const auto cluster = make_deterministic_cluster();
  const ActorRef counter = cluster->spawn("test_counter", {.max_mailbox = 2}, "counter")[0];

  REQUIRE(cluster->tell(counter, Add{1}));
  REQUIRE(cluster->tell(counter, Add{1}));
  CHECK(cluster->tell(counter, Add{1}).error().code == ErrorCode::overloaded);
  CHECK(cluster->topology().actors[0].mailbox_depth == 2);
  CHECK(cluster->ask<Total>(counter, Add{1}, 1s).get().error().code == ErrorCode::overloaded);
  cluster->run();

  CHECK(cluster->ask<Total>(counter, Add{1}, 1s).get()->value == 3);
}

TEST_CASE("an actor's busy time is the time of its handlers", "[actor]") {
  const auto cluster = make_deterministic_cluster();
  const ActorRef clock = cluster->spawn("test_clock", {}, "clock")[0];
  REQUIRE(cluster->ask<void>(clock, Open{70}, 1h).get());
  cluster->advance(30ms);
  REQUIRE(cluster->ask<void>(clock, Open{5}, 1h).get());

  CHECK(cluster->topology().actors[0].busy_ms == 75);
}

TEST_CASE("a stop overtakes what waits in the mailbox", "[actor]") {
  const auto cluster = make_deterministic_cluster();
  const ActorRef counter = cluster->spawn("test_counter", {}, "counter")[0];
  cluster->run();
  auto waiting = cluster->ask<Total>(counter, Add{1}, 1h);

  cluster->stop(counter, "now");

  CHECK(waiting.get().error().message == "counter/0 is down: stopped: now");
  CHECK(cluster->topology().actors[0].num_handled == 0);
}

TEST_CASE("kill ends an actor in the middle of its calls", "[actor][error][CL-1]") {
  const LogCapture log;
  const auto cluster = make_deterministic_cluster();
  const ActorRef counter = cluster->spawn("test_counter", {}, "counter")[0];
  auto open_call = cluster->ask<Total>(counter, Hold{}, 1h);
  cluster->run();
  auto waiting = cluster->ask<Total>(counter, Add{1}, 1h);

  cluster->kill(counter, "kill -9");

  CHECK(open_call.get().error().message == "counter/0 is down: killed: kill -9");
  CHECK(waiting.get().error().message == "counter/0 is down: killed: kill -9");
  CHECK(cluster->first_failure()->name == "counter/0");
}

TEST_CASE("a lost request and a lost answer both end at the deadline", "[actor][error][CL-1]") {
  const bool lose_answers = GENERATE(false, true);
  const auto cluster = make_deterministic_cluster();
  const ActorRef counter = cluster->spawn("test_counter", {}, "counter")[0];
  const ActorRef relay = cluster->spawn("test_relay", {}, "relay", RelayInit{"counter"})[0];
  cluster->set_faults([&](const Delivery& delivery) {
    return Fault{.lose = delivery.is_answer == lose_answers &&
                         (delivery.from == "relay/0" || delivery.to == "relay/0") && delivery.from != "client" &&
                         delivery.to != "client"};
  });

  const auto answer = cluster->ask<Total>(relay, AddTwice{1, 200}, 10s).get();

  CHECK(answer.error().message == "no answer of counter/0 to Add within 200 ms");
  CHECK(cluster->now() == 200ms);
  // The work was done if only the answer was lost.
  cluster->set_faults({});
  CHECK(cluster->ask<Total>(counter, Add{0}, 1s).get()->value == (lose_answers ? 1 : 0));
}

TEST_CASE("a duplicated request is answered once", "[actor][CL-1]") {
  const auto cluster = make_deterministic_cluster();
  const ActorRef counter = cluster->spawn("test_counter", {}, "counter")[0];
  const ActorRef relay = cluster->spawn("test_relay", {}, "relay", RelayInit{"counter"})[0];
  cluster->set_faults([](const Delivery& delivery) { return Fault{.copies = delivery.to == "counter/0" ? 2 : 1}; });

  CHECK(cluster->ask<Total>(relay, AddTwice{1}, 10s).get()->value == 3);

  cluster->set_faults({});
  CHECK(cluster->ask<Numbers>(counter, Recorded{}, 1s).get()->values == std::vector<std::int64_t>{1, 1, 1, 1});
}

TEST_CASE("requests still on their way at the end of a cluster are answered", "[actor][CL-1]") {
  auto cluster = make_deterministic_cluster();
  const ActorRef counter = cluster->spawn("test_counter", {}, "counter")[0];
  cluster->run();
  cluster->set_faults([](const Delivery& delivery) { return Fault{.delay = 1s * (1 + delivery.index)}; });
  std::vector<Future<Total>> answers;
  for (int i = 0; i < 20; ++i) {
    answers.push_back(cluster->ask<Total>(counter, Add{1}, 100s));
  }

  cluster->shutdown();

  for (auto& answer : answers) {
    CHECK(answer.get().error().code == ErrorCode::target_down);
  }
}

TEST_CASE("delays keep the order of a pair and change that between pairs", "[actor]") {
  const auto cluster = make_deterministic_cluster();
  const ActorRef counter = cluster->spawn("test_counter", {}, "counter")[0];
  const ActorRef relay = cluster->spawn("test_relay", {}, "relay", RelayInit{"counter"})[0];
  cluster->run();
  cluster->set_faults([](const Delivery& delivery) {
    return Fault{.delay = delivery.from == "relay/0" && delivery.index % 2 == 1 ? 50ms : 0ms};
  });

  REQUIRE(cluster->tell(relay, Burst{4}));
  cluster->run();
  REQUIRE(cluster->tell(counter, Add{100}));
  cluster->run_for(100ms);

  cluster->set_faults({});
  CHECK(cluster->ask<Numbers>(counter, Recorded{}, 1s).get()->values == std::vector<std::int64_t>{100, 1, 2, 3, 4});
}

/// One run under seeded faults, as text: every answer in order and the virtual time it took.
std::string faulty_run(std::uint64_t seed) {
  const LogCapture log;
  const auto cluster = make_deterministic_cluster(
      {.on_failure = {},
       .faults = seeded_faults(seed, {.lose = 0.1, .duplicate = 0.1, .kill = 0.02, .max_delay = 30ms})});
  (void)cluster->spawn("test_counter", {}, "counter");
  const auto relays = cluster->spawn("test_relay", {.count = 3}, "relay", RelayInit{"counter"});
  std::vector<Future<Total>> futures;
  for (int i = 0; i < 30; ++i) {
    futures.push_back(cluster->ask<Total>(relays[static_cast<std::size_t>(i % 3)], AddTwice{1, 100}, 1s));
  }
  std::string trace;
  for (auto& future : futures) {
    const auto answer = future.get();
    trace += answer ? std::to_string(answer->value) : std::string(to_string(answer.error().code));
    trace += " ";
  }
  return trace + std::to_string(cluster->now().count());
}

TEST_CASE("under loss, delay, duplicates and death every ask is answered, and a seed repeats its run",
          "[actor][error][CL-1][RL-6]") {
  std::size_t num_distinct = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const std::string trace = faulty_run(seed);
    REQUIRE(trace == faulty_run(seed));
    num_distinct += trace != faulty_run(seed + 1000) ? 1 : 0;
  }
  CHECK(num_distinct > 45);
}

TEST_CASE("the oldest pending ask shows who waits for whom, and since when", "[actor][pain:L15]") {
  const auto cluster = make_deterministic_cluster();
  (void)cluster->spawn("test_counter", {}, "counter");
  const ActorRef relay = cluster->spawn("test_relay", {}, "relay", RelayInit{"counter"})[0];
  cluster->set_faults([](const Delivery& delivery) { return Fault{.lose = delivery.to == "counter/0"}; });
  auto pending = cluster->ask<Total>(relay, AddTwice{1}, 10s);

  cluster->run_for(291ms);

  const ActorStatus status = cluster->topology().actors[1];
  CHECK(status.num_pending_asks == 1);
  CHECK(status.waits_for == "counter/0");
  CHECK(status.waits_for_message == "Add");
  CHECK(status.waits_for_age_ms == 291.0);
}

}  // namespace
}  // namespace memopd::testing

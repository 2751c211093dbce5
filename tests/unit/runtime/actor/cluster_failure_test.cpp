// What every kind of cluster promises when something goes wrong; the same tests run on each.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <stdexcept>

#include "tests/unit/runtime/actor/test_actors.hpp"

namespace memopd::testing {
namespace {

using namespace std::chrono_literals;

std::string kind() { return GENERATE(from_range(cluster_kinds())); }

TEST_CASE("an ask without an answer ends at its deadline and names target and message",
          "[actor][error][CL-1][pain:T24]") {
  const auto cluster = make_cluster(kind());
  const ActorRef counter = cluster->spawn("test_counter", {}, "counter")[0];
  const ActorRef holder = cluster->spawn("test_holder", {}, "holder")[0];

  SECTION("from outside") {
    const auto answer = cluster->ask<Total>(counter, Hold{}, 20ms).get();
    REQUIRE_FALSE(answer);
    CHECK(answer.error().code == ErrorCode::timeout);
    CHECK(answer.error().message == "no answer of counter/0 to Hold within 20 ms");
  }
  SECTION("from an actor") {
    const auto answer = cluster->ask<Total>(holder, AddTwice{1, 20}, 1h).get();
    REQUIRE_FALSE(answer);
    CHECK(answer.error().code == ErrorCode::timeout);
    CHECK(answer.error().message == "no answer of counter/0 to Hold within 20 ms");
  }
}

TEST_CASE("a dropped promise answers refused", "[actor][error][CL-1]") {
  const auto cluster = make_cluster(kind());
  const ActorRef counter = cluster->spawn("test_counter", {}, "counter")[0];
  auto held = cluster->ask<Total>(counter, Hold{}, 1h);

  REQUIRE(cluster->tell(counter, Drop{}));

  const auto answer = held.get();
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == ErrorCode::refused);
  CHECK(answer.error().message == "promise dropped");
}

TEST_CASE("a handler that throws answers internal, ends its actor and is the first failure",
          "[actor][error][pain:L12]") {
  const LogCapture log;
  std::vector<std::string> failures;
  const auto cluster = make_cluster(kind(), [&](const Down& down) { failures.push_back(down.name); });
  const ActorRef counter = cluster->spawn("test_counter", {}, "counter")[0];
  const ActorRef watcher = cluster->spawn("test_watcher", {}, "watcher", RelayInit{"counter"})[0];

  const auto answer = cluster->ask<Total>(counter, Add{-1}, 1h).get();

  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == ErrorCode::internal);
  CHECK(answer.error().message == "negative amount");
  CHECK(cluster->ask<Text>(watcher, NextDown{}, 1h).get()->text == "counter/0 failed: internal: negative amount");
  const auto later = cluster->ask<Total>(counter, Add{1}, 1h).get();
  CHECK(later.error().code == ErrorCode::target_down);
  CHECK(later.error().message == "counter/0 is down: internal: negative amount");
  (void)cluster->shutdown(1h);
  CHECK(cluster->first_failure()->reason == "internal: negative amount");
  CHECK(failures == std::vector<std::string>{"counter/0"});
  CHECK(log.lines("actor_failed") ==
        std::vector<std::string>{"error actor actor_failed actor=counter/0 reason=\"internal: negative amount\""});
}

TEST_CASE("death in the middle of a call answers target_down with the first cause", "[actor][error][CL-1][pain:L01]") {
  const LogCapture log;
  const auto cluster = make_cluster(kind());
  const ActorRef counter = cluster->spawn("test_counter", {}, "counter")[0];
  auto open_call = cluster->ask<Total>(counter, Hold{}, 1h);

  REQUIRE(cluster->tell(counter, Fail{"disk is full"}));
  auto waiting = cluster->ask<Total>(counter, Add{1}, 1h);

  CHECK(open_call.get().error().code == ErrorCode::target_down);
  const auto answer = waiting.get();
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == ErrorCode::target_down);
  CHECK(answer.error().message == "counter/0 is down: io_error: disk is full");
}

TEST_CASE("stop answers what is open and what waits with target_down and is no failure", "[actor][error][pain:L13]") {
  const auto cluster = make_cluster(kind());
  const ActorRef counter = cluster->spawn("test_counter", {}, "counter")[0];
  const ActorRef watcher = cluster->spawn("test_watcher", {}, "watcher", RelayInit{"counter"})[0];
  auto open_call = cluster->ask<Total>(counter, Hold{}, 1h);
  REQUIRE(cluster->ask<Total>(counter, Add{1}, 1h).get());

  cluster->stop(counter, "step is done");

  CHECK(open_call.get().error().message == "counter/0 is down: stopped: step is done");
  CHECK(cluster->ask<Text>(watcher, NextDown{}, 1h).get()->text == "counter/0 ended: stopped: step is done");
  CHECK_FALSE(cluster->first_failure());
}

TEST_CASE("watch fires without any other reference to the watcher", "[actor][R9]") {
  // R9: the cluster owns the watcher; nobody else holds it while its target ends.
  const auto cluster = make_cluster(kind());
  const ActorRef counter = cluster->spawn("test_counter", {}, "counter")[0];
  (void)cluster->spawn("test_watcher", {}, "watcher", RelayInit{"counter"});
  REQUIRE(cluster->ask<void>((*cluster->find("watcher"))[0], Recorded{}, 1h).get());

  cluster->stop(counter, "end");

  const ActorRef watcher = (*cluster->find("watcher"))[0];
  CHECK(cluster->ask<Text>(watcher, NextDown{}, 1h).get()->text == "counter/0 ended: stopped: end");
}

TEST_CASE("a watch of an actor that has ended fires all the same", "[actor]") {
  const auto cluster = make_cluster(kind());
  const ActorRef counter = cluster->spawn("test_counter", {}, "counter")[0];
  const ActorRef first = cluster->spawn("test_watcher", {}, "first", RelayInit{"counter"})[0];
  cluster->stop(counter, "end");
  REQUIRE(cluster->ask<Text>(first, NextDown{}, 1h).get());

  const ActorRef late = cluster->spawn("test_watcher", {}, "late", RelayInit{"counter"})[0];

  CHECK(cluster->ask<Text>(late, NextDown{}, 1h).get()->text == "counter/0 ended: stopped: end");
}

TEST_CASE("a message that nobody handles, and an answer of another type, are bad_schema", "[actor][error]") {
  const LogCapture log;
  const auto cluster = make_cluster(kind());
  const ActorRef relay_target = cluster->spawn("test_counter", {}, "counter")[0];
  const ActorRef relay = cluster->spawn("test_relay", {}, "relay", RelayInit{"counter"})[0];

  const auto unknown = cluster->ask<Total>(relay, Unknown{}, 1h).get();
  const auto other = cluster->ask<Text>(relay_target, Add{1}, 1h).get();

  CHECK(unknown.error().code == ErrorCode::bad_schema);
  CHECK_THAT(unknown.error().message, Catch::StartsWith("relay/0 has no handler of message Unknown v1, it handles: ") &&
                                          Catch::Contains("AddTwice v1"));
  CHECK(other.error().code == ErrorCode::bad_schema);
  CHECK(other.error().message == "asked for Text v1, was answered with Total v1");

  // A tell has no asker: its errors are logged, once per message.
  REQUIRE(cluster->tell(relay, Unknown{}));
  REQUIRE(cluster->tell(relay, Unknown{}));
  REQUIRE(cluster->ask<void>(relay, Burst{0}, 1h).get());
  CHECK(log.lines("unknown_message").size() == 1);
}

TEST_CASE("a continuation that throws answers internal and ends its actor", "[actor][error]") {
  const LogCapture log;
  const auto cluster = make_cluster(kind());
  (void)cluster->spawn("test_counter", {}, "counter");
  const ActorRef relay = cluster->spawn("test_relay", {}, "relay", RelayInit{"counter"})[0];

  const auto answer = cluster->ask<Total>(relay, ThrowLater{}, 1h).get();

  CHECK(answer.error().code == ErrorCode::internal);
  CHECK(answer.error().message == "thrown in a continuation");
  (void)cluster->shutdown(1h);
  REQUIRE(cluster->first_failure());
  CHECK(cluster->first_failure()->name == "relay/0");
}

TEST_CASE("a constructor that throws fails the spawn and starts none of the group", "[actor][error]") {
  const auto cluster = make_cluster(kind());

  const auto group = cluster->spawn("test_thrower", {.count = 3}, "throwers");

  REQUIRE_FALSE(group);
  CHECK(group.error().code == ErrorCode::internal);
  CHECK(group.error().message == "constructor of throwers/1 threw: rank 1 cannot");
  CHECK_FALSE(cluster->find("throwers"));
  CHECK(cluster->shutdown(1h).survivors.empty());
}

TEST_CASE("started() that throws is the cause of every later target_down", "[actor][error]") {
  const LogCapture log;
  const auto cluster = make_cluster(kind());
  const ActorRef starter = cluster->spawn("test_bad_start", {}, "starter")[0];

  const auto answer = cluster->ask<Total>(starter, Add{1}, 1h).get();

  CHECK(answer.error().message == "starter/0 is down: internal: no model in folder");
}

TEST_CASE("waiting for a Future inside an actor is a checked bug", "[actor][error]") {
  // In a child process, because the check ends it; the deterministic form has no threads that fork would lose.
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    (void)!freopen("/dev/null", "w", stderr);
    const auto cluster = make_cluster("deterministic");
    (void)cluster->spawn("test_counter", {}, "counter");
    const ActorRef waiter = cluster->spawn("test_waiter", {}, "waiter")[0];
    (void)cluster->ask<Total>(waiter, Add{1}, 1s).get();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
}

class Holder final : public Actor {
  void setup() override { on(&Holder::hold); }
  Later<Total> hold(const AddTwice& request) {
    return ask<Total>((*cluster().find("counter"))[0], Hold{}, std::chrono::milliseconds(request.deadline_ms));
  }
};
MEMOPD_REGISTER_ACTOR("test_holder", Holder)

class Thrower final : public Actor {
 public:
  Thrower() {
    if (rank() == 1) {
      throw std::runtime_error("rank 1 cannot");
    }
  }

 private:
  void setup() override {}
};
MEMOPD_REGISTER_ACTOR("test_thrower", Thrower)

class BadStart final : public Actor {
  void setup() override { on(&BadStart::add); }
  void started() override { throw std::runtime_error("no model in folder"); }
  Expected<Total> add(const Add&) { return Total{}; }
};
MEMOPD_REGISTER_ACTOR("test_bad_start", BadStart)

class Waiter final : public Actor {
  void setup() override { on(&Waiter::add); }
  Expected<Total> add(const Add& request) {
    return cluster().ask<Total>((*cluster().find("counter"))[0], request, 1s).get();
  }
};
MEMOPD_REGISTER_ACTOR("test_waiter", Waiter)

}  // namespace
}  // namespace memopd::testing

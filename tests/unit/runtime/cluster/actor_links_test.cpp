// Calls over links, with a transport that only writes down what it is given.
#include "runtime/cluster/actor_links.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "runtime/actor/actor.hpp"
#include "tests/unit/runtime/cluster/cluster_test_actors.hpp"

namespace memopd::testing {
namespace {

using namespace std::chrono_literals;

class RecordingTransport final : public Transport {
 public:
  [[nodiscard]] const std::vector<std::string>& endpoints() const override { return endpoints_; }
  void dial(DialRequest request) override { dialled.push_back(std::move(request)); }
  Expected<void> send(const InstanceId& to, std::span<const std::byte> body) override {
    if (is_slow) {
      return unexpected(ErrorCode::overloaded, "the peer is slow");
    }
    sent.push_back({to, {body.begin(), body.end()}});
    return {};
  }
  void close(const InstanceId& peer, std::string) override { closed.push_back(peer); }
  [[nodiscard]] Bulk& bulk() override { throw std::logic_error("no bulk here"); }
  [[nodiscard]] TransportCounters counters() const override { return {}; }

  template <Message M>
  [[nodiscard]] M last() const {
    REQUIRE_FALSE(sent.empty());
    auto message = decode_frame<M>(sent.back().second);
    REQUIRE(message);
    return *message;
  }

  std::vector<DialRequest> dialled;
  std::vector<std::pair<InstanceId, std::vector<std::byte>>> sent;
  std::vector<InstanceId> closed;
  bool is_slow = false;

 private:
  std::vector<std::string> endpoints_{"ipc://me"};
};

ProcessEntry process(const std::string& name, std::uint64_t incarnation, ProcessState state) {
  InstanceId instance;
  instance.bytes[0] = static_cast<std::uint8_t>(name.front());
  instance.bytes[1] = static_cast<std::uint8_t>(incarnation);
  return {name, "local", state, incarnation, instance, {"ipc://" + name}, ""};
}

Peer peer(const std::string& name, std::uint64_t incarnation) {
  Peer result;
  result.identity.role = name;
  result.identity.incarnation = incarnation;
  result.identity.instance = process(name, incarnation, ProcessState::running).instance;
  return result;
}

/// This process is "me", incarnation 4, with the actor me/0; them/0 lives in "them".
struct Links {
  std::unique_ptr<Cluster> local = make_local_cluster({.threads = 1});
  RecordingTransport transport;
  std::shared_ptr<ActorLinks> links = std::make_shared<ActorLinks>("me", 4, detail::core_of(*local));

  Links() {
    links->connect(transport);
    const ActorRef me = local->spawn("resident", {}, "me")[0];
    links->add_local(me);
    DirectoryUpdate update{1, {process("me", 4, ProcessState::running)}, {}};
    update.processes.push_back(process("them", 1, ProcessState::running));
    update.actors.push_back({"them/0", "them", "resident", 0, 1, false, 2, "them"});
    update.actors.push_back({"me/0", "me", "resident", 0, 1, false, 10, "me"});
    links->apply(update);
  }
  ~Links() { links->close(); }

  [[nodiscard]] ActorRef them() const { return (*links->find("them"))[0]; }
  [[nodiscard]] Future<Total> ask(std::int64_t amount) { return local->ask<Total>(them(), Add{amount}, 3600s); }
  template <Message M>
  Expected<void> take(const Peer& from, const M& message) {
    const auto bytes = *encode_frame(message);
    Expected<void> result;
    REQUIRE(links->take(from, *parse_frame(bytes), result));
    return result;
  }
  void answer(const Peer& from, std::uint64_t call, std::int64_t value) {
    REQUIRE(take(from, ActorAnswer{call, std::nullopt, "Total", 1, encode(Total{value, 1})}));
  }
};

bool wait_until(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

TEST_CASE("what is sent before a link is up dials once, waits, and leaves in order", "[cluster]") {
  Links test;
  auto first = test.ask(1);
  auto second = test.ask(2);
  CHECK(test.transport.sent.empty());
  REQUIRE(test.transport.dialled.size() == 1);
  CHECK(test.transport.dialled[0].endpoint == "ipc://them");

  test.links->peer_up(peer("them", 1));

  REQUIRE(test.transport.sent.size() == 2);
  const auto last = test.transport.last<ActorCall>();
  CHECK(decode<Add>(last.body)->amount == 2);
  CHECK(last.to_incarnation == 1);
  test.answer(peer("them", 1), last.call, 20);
  CHECK(second.get()->value == 20);
}

TEST_CASE("the end of a link answers every open call, and a later start answers none of them", "[cluster][R4][CL-2]") {
  Links test;
  test.links->peer_up(peer("them", 1));
  auto open = test.ask(1);
  const auto call = test.transport.last<ActorCall>();

  test.links->peer_down(peer("them", 1), {ErrorCode::target_down, "silent"});

  const auto answer = open.get();
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == ErrorCode::target_down);
  CHECK_THAT(answer.error().message, Catch::Contains("link to them lost: silent"));
  const auto late = test.take(peer("them", 1), ActorAnswer{call.call, std::nullopt, "Total", 1, encode(Total{1, 1})});
  REQUIRE_FALSE(late);
  CHECK_THAT(late.error().message, Catch::Contains("which is not open"));
}

TEST_CASE("a call for an earlier start of this process is refused", "[cluster][CL-2]") {
  Links test;
  const auto taken = test.take(peer("them", 1), ActorCall{"them/0", "me/0", 3, 9, "Add", 1, encode(Add{1})});
  REQUIRE_FALSE(taken);
  const auto answer = test.transport.last<ActorAnswer>();
  CHECK(answer.call == 9);
  REQUIRE(answer.error);
  CHECK(answer.error->code == ErrorCode::target_down);
}

TEST_CASE("a call from a process that was replaced is refused", "[cluster][CL-2]") {
  Links test;
  test.links->apply({2, {process("them", 2, ProcessState::starting)}, {}});
  const auto taken = test.take(peer("them", 1), ActorCall{"them/0", "me/0", 4, 9, "Add", 1, encode(Add{1})});
  REQUIRE_FALSE(taken);
  CHECK(taken.error().message == "them incarnation 1 was replaced by 2");
}

TEST_CASE("what is sent while a process is started again goes to its next start", "[cluster]") {
  Links test;
  test.links->peer_up(peer("them", 1));
  test.links->apply({2, {process("them", 1, ProcessState::waiting)}, {}});
  CHECK_FALSE(test.them().is_alive());
  CHECK(test.them().is_expected());
  auto held = test.ask(7);
  test.links->apply({3, {process("them", 2, ProcessState::starting)}, {}});
  test.links->peer_up(peer("them", 2));
  CHECK(test.transport.sent.empty());

  test.links->apply({4, {process("them", 2, ProcessState::running)}, {}});

  const auto call = test.transport.last<ActorCall>();
  CHECK(call.to_incarnation == 2);
  CHECK(test.transport.sent.back().first == peer("them", 2).identity.instance);
  test.answer(peer("them", 2), call.call, 70);
  CHECK(held.get()->value == 70);
}

TEST_CASE("a dial to an earlier start does not hold up the dial to the next", "[cluster]") {
  Links test;
  auto held = test.ask(1);
  REQUIRE(test.transport.dialled.size() == 1);
  test.links->apply({2, {process("them", 2, ProcessState::running)}, {}});
  REQUIRE(test.transport.dialled.size() == 2);
  CHECK(test.transport.dialled[1].expected == peer("them", 2).identity.instance);

  test.links->dial_failed(test.transport.dialled[0], {ErrorCode::target_down, "nobody there"});
  test.links->tick();
  CHECK(test.transport.dialled.size() == 2);
  test.links->peer_up(peer("them", 2));
  CHECK(test.transport.sent.size() == 1);
}

TEST_CASE("whom somebody waits for is dialled again after a dial that came to nothing", "[cluster]") {
  Links test;
  auto held = test.ask(1);
  test.links->dial_failed(test.transport.dialled[0], {ErrorCode::target_down, "nobody there"});
  CHECK(wait_until([&] {
    test.links->tick();
    return test.transport.dialled.size() == 2;
  }));
}

TEST_CASE("a process that has ended for good answers what was held for it", "[cluster]") {
  Links test;
  auto held = test.ask(1);
  ProcessEntry failed = process("them", 1, ProcessState::failed);
  failed.reason = "killed by SIGKILL; restarted 5 times";
  test.links->apply({2, {failed}, {}});
  const auto answer = held.get();
  REQUIRE_FALSE(answer);
  CHECK(answer.error().message == "them/0 is down: killed by SIGKILL; restarted 5 times");
  CHECK_FALSE(test.them().is_expected());
}

TEST_CASE("no more asks are open to one actor than its mailbox is long", "[cluster]") {
  Links test;
  test.links->peer_up(peer("them", 1));
  auto first = test.ask(1);
  const auto call = test.transport.last<ActorCall>();
  auto second = test.ask(2);
  const auto third = test.ask(3).get();
  REQUIRE_FALSE(third);
  CHECK(third.error().code == ErrorCode::overloaded);

  test.answer(peer("them", 1), call.call, 1);
  REQUIRE(first.get());
  auto fourth = test.ask(4);
  CHECK(test.transport.sent.size() == 3);
}

TEST_CASE("a peer that takes no more is told by overloaded, and an answer to it waits", "[cluster]") {
  Links test;
  test.links->peer_up(peer("them", 1));
  test.transport.is_slow = true;
  const auto refused = test.ask(1).get();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::overloaded);
  REQUIRE(test.take(peer("them", 1), ActorCall{"them/0", "nobody/0", 4, 9, "Add", 1, {}}));
  CHECK(test.transport.sent.empty());

  test.transport.is_slow = false;
  test.links->tick();

  CHECK(test.transport.last<ActorAnswer>().call == 9);
}

}  // namespace
}  // namespace memopd::testing

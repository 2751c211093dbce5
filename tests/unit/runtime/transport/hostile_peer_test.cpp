// Strangers and members that misbehave: refused, counted, named; the node goes on.
#include <catch2/catch.hpp>

#include "runtime/transport/detail/link_options.hpp"
#include "tests/unit/runtime/transport/test_network.hpp"
#include "tests/unit/runtime/transport/test_transport.hpp"

namespace memopd {
namespace {

using testing::Bytes;
using testing::bytes_of;
using testing::Node;
using testing::RawMember;
using testing::TestRun;
using Kind = testing::Recorder::Kind;

std::int64_t num_refused(const Node& node, RefusalReason reason) {
  return node.transport->counters().refused[static_cast<std::size_t>(reason)];
}

/// That an honest peer still gets through.
void check_alive(const TestRun& run, Node& node) {
  Node honest(run.options("honest"));
  honest.transport->dial({node.endpoint(), node.id()});
  REQUIRE(honest.recorder.wait(Kind::up).instance == node.id());
  REQUIRE(honest.transport->send(node.id(), bytes_of("still there")));
  CHECK(node.recorder.wait(Kind::message).text == "still there");
}

TEST_CASE("a peer with another run's key is refused on both sides", "[transport][SE-1][R7][error]") {
  const TestRun run;
  const TestRun other;
  Node node(run.options("launcher"));
  Node stranger(other.options("stranger"));

  stranger.transport->dial({node.endpoint(), std::nullopt});

  const auto failed = stranger.recorder.wait(Kind::dial_failed);
  CHECK(failed.code == ErrorCode::refused);
  CHECK_THAT(failed.text, Catch::Contains("another run's key"));
  CHECK_THAT(node.recorder.wait_refused(RefusalReason::stranger).peer, Catch::Contains("127.0.0.1"));
  check_alive(run, node);
}

TEST_CASE("knowing the public key is not enough: the client's own key is checked", "[transport][SE-1][R7]") {
  const TestRun run;
  Node node(run.options("launcher"));
  const auto own = *RunKey::generate();
  detail::ZmqContext context;
  detail::ZmqSocket socket(context, ZMQ_DEALER);
  socket.set(ZMQ_CURVE_SERVERKEY, run.key.public_key());
  socket.set(ZMQ_CURVE_PUBLICKEY, own.public_key());
  socket.set(ZMQ_CURVE_SECRETKEY, own.secret_key());
  REQUIRE(socket.connect(node.endpoint()));

  const auto refused = node.recorder.wait_refused(RefusalReason::stranger);

  CHECK_THAT(refused.text, Catch::Contains("not admitted"));
}

TEST_CASE("a peer without CURVE is refused", "[transport][SE-1][R7]") {
  const TestRun run;
  Node node(run.options("launcher"));
  detail::ZmqContext context;
  detail::ZmqSocket socket(context, ZMQ_DEALER);
  REQUIRE(socket.connect(node.endpoint()));
  detail::ZmqMessage hello(bytes_of("hello"));
  REQUIRE(socket.send(hello) == detail::SendStatus::sent);

  static_cast<void>(node.recorder.wait_refused(RefusalReason::stranger));

  CHECK(node.recorder.count(Kind::up) + node.recorder.count(Kind::message) == 0);
  check_alive(run, node);
}

TEST_CASE("garbage, half a greeting and a claimed length of 2 GiB are cut off", "[transport][SE-1][R7]") {
  const TestRun run;
  auto options = run.options("launcher");
  options.handshake_timeout = std::chrono::milliseconds(200);
  Node node(options);
  const std::int64_t before = testing::resident_bytes();
  const std::string greeting = std::string("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16) + std::string(48, '\0');
  const std::vector<Bytes> attacks{
      bytes_of(std::string(200, 'G')),   // not ZMTP
      bytes_of(greeting.substr(0, 20)),  // half a greeting, then silence
      bytes_of(greeting),                // another mechanism
      bytes_of(std::string("\xff\0\0\0\0\0\0\0\1\x7f\3\0CURVE", 17) + std::string(47, '\0') +
               std::string("\6\0\0\0\0\x80\0\0\0", 9)),  // a command of 2 GiB
  };
  for (const Bytes& attack : attacks) {
    testing::RawTcp stranger(node.endpoint());
    stranger.send(attack);

    stranger.wait_closed();

    CHECK_THAT(node.recorder.wait_refused(RefusalReason::stranger).peer, Catch::Contains("tcp://127.0.0.1:"));
  }
  CHECK(testing::resident_bytes() - before < 32 << 20);
  check_alive(run, node);
}

TEST_CASE("200 strangers at once do not keep members out", "[transport][SE-1][R7]") {
  const TestRun run;
  Node node(run.options("launcher"));
  std::vector<std::unique_ptr<testing::RawTcp>> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(std::make_unique<testing::RawTcp>(node.endpoint()));
    strangers.back()->send(bytes_of(std::string(1 + i % 90, static_cast<char>(i))));
  }
  check_alive(run, node);
}

TEST_CASE("a member's frame above the limit ends its link and nothing is allocated for it", "[transport][R3][R7]") {
  const TestRun run;
  Node node(run.options("launcher"));
  RawMember member(run.key, node.endpoint());
  member.claim(run.identity("env/0"));
  static_cast<void>(node.recorder.wait(Kind::up));

  member.send(Bytes(kMaxLinkFrameBytes + 1024));

  CHECK(node.recorder.wait(Kind::down).peer == "env/0");
  CHECK(node.recorder.count(Kind::message) == 0);
}

TEST_CASE("a member's garbage is refused, counted and carries its name", "[transport][error]") {
  const TestRun run;
  Node node(run.options("launcher"));
  RawMember member(run.key, node.endpoint());
  const auto self = run.identity("env/0");
  member.send(bytes_of("before any claim"));
  CHECK_THAT(node.recorder.wait_refused(RefusalReason::malformed).peer, Catch::Contains("member at tcp://127.0.0.1"));
  member.send_data(self, 1, "x");
  CHECK_THAT(node.recorder.wait_refused(RefusalReason::no_session).peer, Catch::Contains("member at"));
  member.claim(self);
  REQUIRE(member.receive_kind() == LinkFrameKind::welcome);

  member.send(bytes_of(""));
  CHECK_THAT(node.recorder.wait_refused(RefusalReason::malformed).peer, Catch::Contains("env/0"));
  member.send_parts(bytes_of("two"), bytes_of("parts"));
  CHECK_THAT(node.recorder.wait_refused(RefusalReason::malformed).peer, Catch::Contains("env/0"));
  member.claim(self);
  CHECK_THAT(node.recorder.wait_refused(RefusalReason::duplicate).peer, Catch::Contains("env/0"));
  auto frame = encode_link_frame({LinkFrameKind::data, make_random_id<RunId>(), 1, 1}, {});
  member.send(frame);
  CHECK_THAT(node.recorder.wait_refused(RefusalReason::wrong_run).peer, Catch::Contains("env/0"));
  member.send_data(self, 1, "good");
  CHECK(node.recorder.wait(Kind::message).text == "good");
  CHECK(num_refused(node, RefusalReason::malformed) == 3);
  CHECK(node.recorder.count(Kind::down) == 0);
}

TEST_CASE("a claim that is garbage or contradicts its header is refused", "[transport][R6][error]") {
  const TestRun run;
  Node node(run.options("launcher"));
  RawMember member(run.key, node.endpoint());

  member.send(encode_link_frame({LinkFrameKind::hello, run.run, 1, 0}, bytes_of("garbage")));
  CHECK(member.receive_kind() == LinkFrameKind::refusal);
  member.send(
      encode_link_frame({LinkFrameKind::hello, run.run, 7, 0}, *encode_frame(LinkHello{run.identity("env/0", 8)})));
  CHECK_THAT(member.receive_refusal(), Catch::Contains("contradicts"));
  CHECK(node.recorder.count(Kind::up) == 0);
}

TEST_CASE("a body that the user of the transport refuses is counted with the sender's name", "[transport][error]") {
  const TestRun run;
  Node node(run.options("launcher"), [](Transport&, const Peer&, std::span<const std::byte> body) -> Expected<void> {
    const auto frame = parse_frame(body);
    MEMOPD_RETURN_IF_ERROR(frame);
    return unexpected(ErrorCode::bad_schema, "unknown message " + std::string(frame->name));
  });
  Node peer(run.options("env/0"));
  link(peer, node);

  REQUIRE(peer.transport->send(node.id(), *encode_frame(LinkRefusal{"a", "b"})));

  const auto refused = node.recorder.wait_refused(RefusalReason::bad_payload);
  CHECK_THAT(refused.peer, Catch::Contains("env/0"));
  CHECK(refused.text == "unknown message LinkRefusal");
  CHECK(node.transport->counters().frames_received == 0);
}

TEST_CASE("a second claim on a living instance is refused, both named", "[transport][R6][R13][error]") {
  const TestRun run;
  Node node(run.options("launcher"));
  const auto self = run.identity("env/0");
  RawMember first(run.key, node.endpoint());
  first.claim(self);
  REQUIRE(first.receive_kind() == LinkFrameKind::welcome);
  RawMember second(run.key, node.endpoint());
  auto twin = self;
  twin.role = "env/1";

  second.claim(twin);

  CHECK_THAT(second.receive_refusal(), Catch::Contains("env/0") && Catch::Contains("env/1"));
  first.send_data(self, 1, "unharmed");
  static_cast<void>(node.recorder.wait(Kind::up));
  CHECK(node.recorder.wait(Kind::message).text == "unharmed");
}

TEST_CASE("a peer of another build is refused in one line that shows both sides", "[transport][pain:L07][error]") {
  const TestRun run;
  Node node(run.options("launcher"));
  auto options = run.options("env/0");
  options.self.build_id = "build-2";
  Node peer(options);

  peer.transport->dial({node.endpoint(), node.id()});

  const auto failed = peer.recorder.wait(Kind::dial_failed);
  CHECK(failed.code == ErrorCode::bad_schema);
  CHECK_THAT(failed.text, Catch::Contains(to_string(peer.self) + " has protocol 1, build build-2") &&
                              Catch::Contains(to_string(node.self) + " has protocol 1, build build-1"));
  CHECK(failed.text.find('\n') == std::string::npos);
  CHECK(node.recorder.wait_refused(RefusalReason::incompatible).text == failed.text.substr(failed.text.find("env/0")));
}

TEST_CASE("frames of an earlier incarnation and frames that were there are refused", "[transport][CL-2][R6]") {
  const TestRun run;
  Node node(run.options("launcher"));
  RawMember member(run.key, node.endpoint());
  const auto self = run.identity("student/0", 2);
  auto earlier = self;
  earlier.incarnation = 1;
  member.claim(self);
  static_cast<void>(node.recorder.wait(Kind::up));

  member.send_data(self, 5, "five");
  member.send_data(earlier, 6, "late message of incarnation 1");
  member.send_data(self, 5, "five again");
  member.send_data(self, 4, "four");
  member.send_data(self, 6, "six");

  CHECK(node.recorder.wait(Kind::message).text == "five");
  CHECK(node.recorder.wait(Kind::message).text == "six");
  CHECK(num_refused(node, RefusalReason::stale_incarnation) == 1);
  CHECK(num_refused(node, RefusalReason::stale_sequence) == 2);
  CHECK_THAT(node.recorder.wait_refused(RefusalReason::stale_incarnation).peer, Catch::Contains("student/0"));
}

TEST_CASE("a new incarnation replaces the living one, whose later frames are refused", "[transport][CL-2]") {
  const TestRun run;
  Node node(run.options("launcher"));
  RawMember old_member(run.key, node.endpoint());
  const auto old_self = run.identity("student/0", 1);
  old_member.claim(old_self);
  REQUIRE(old_member.receive_kind() == LinkFrameKind::welcome);
  Node fresh(run.options("student/0", 2));

  fresh.transport->dial({node.endpoint(), node.id()});

  const auto down = node.recorder.wait(Kind::down);
  CHECK(down.instance == old_self.instance);
  CHECK_THAT(down.text, Catch::Contains("replaced by student/0") && Catch::Contains("incarnation 2"));
  CHECK_THAT(old_member.receive_refusal(), Catch::Contains("replaced by"));
  old_member.send_data(old_self, 1, "late");
  static_cast<void>(node.recorder.wait_refused(RefusalReason::no_session));
  old_member.claim(old_self);
  CHECK_THAT(old_member.receive_refusal(), Catch::Contains("was replaced by"));
  CHECK(node.recorder.count(Kind::message) == 0);
}

TEST_CASE("what a client's ZeroMQ sends again after a reconnect is not acted on", "[transport][R6][CL-2]") {
  const TestRun run;
  Node node(run.options("launcher"));
  testing::TcpRelay relay(node.endpoint());
  RawMember member(run.key, relay.endpoint());  // reconnects on its own and keeps its queue, unlike a Transport
  const auto self = run.identity("env/0");
  member.claim(self);
  REQUIRE(member.receive_kind() == LinkFrameKind::welcome);
  relay.cut();
  CHECK(node.recorder.wait(Kind::down).peer == "env/0");

  for (std::uint64_t i = 1; i <= 3; ++i) {
    member.send_data(self, i, "from before");
  }

  static_cast<void>(node.recorder.wait_refused(RefusalReason::no_session));
  CHECK(node.recorder.count(Kind::message) == 0);
}

TEST_CASE("a flood of one member's garbage is counted and leaves others their link", "[transport][R7]") {
  const TestRun run;
  Node node(run.options("launcher"));
  const std::int64_t before = testing::resident_bytes();
  RawMember member(run.key, node.endpoint());
  const auto self = run.identity("env/0");
  member.claim(self);
  REQUIRE(member.receive_kind() == LinkFrameKind::welcome);
  constexpr int kFrames = 20'000;
  for (int i = 0; i < kFrames; ++i) {
    member.send(bytes_of("garbage"));
  }

  check_alive(run, node);

  testing::wait_until([&] { return num_refused(node, RefusalReason::malformed) == kFrames; }, "the flood's end");
  CHECK(testing::resident_bytes() - before < 64 << 20);
}

}  // namespace
}  // namespace memopd

#include <signal.h>
#include <sys/stat.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <set>

#include "tests/unit/runtime/transport/test_network.hpp"
#include "tests/unit/runtime/transport/test_transport.hpp"

namespace memopd {
namespace {

using testing::Bytes;
using testing::bytes_of;
using testing::Node;
using testing::TestRun;
using Kind = testing::Recorder::Kind;

struct Numbers {
  std::vector<double> doubles;
  std::vector<float> floats;
};
MEMOPD_MESSAGE(Numbers, 1, doubles, floats)

TEST_CASE("infinities, NaN payloads and denormals pass to a peer process and back", "[transport][R2]") {
  const TestRun run;
  Node node(run.options("launcher"));
  const testing::PeerProcess process("echo", run, {"env/0", node.endpoint()});
  const auto peer = node.recorder.wait(Kind::up);
  using Double = std::numeric_limits<double>;
  const Numbers sent{{Double::infinity(), -Double::infinity(), std::bit_cast<double>(0x7FF8DEADBEEF0001ULL), 1e-310,
                      Double::denorm_min(), -0.0},
                     {-std::numeric_limits<float>::infinity(), std::bit_cast<float>(0xFFC12345U), 1e-42F}};

  REQUIRE(node.transport->send(peer.instance, *encode_frame(sent)));

  const auto back = node.recorder.wait(Kind::message);
  const auto received = decode_frame<Numbers>(bytes_of(back.text));
  REQUIRE(received);
  CHECK(std::memcmp(received->doubles.data(), sent.doubles.data(), sent.doubles.size() * sizeof(double)) == 0);
  CHECK(std::memcmp(received->floats.data(), sent.floats.data(), sent.floats.size() * sizeof(float)) == 0);
}

TEST_CASE("messages reach the peer in order, both ways, and are counted", "[transport][R6]") {
  const TestRun run;
  Node a(run.options("a"));
  Node b(run.options("b"), [](Transport& transport, const Peer& peer, std::span<const std::byte> body) {
    return transport.send(peer.identity.instance, body);
  });
  link(a, b);

  for (int i = 0; i < 1000; ++i) {
    REQUIRE(a.transport->send(b.id(), bytes_of(std::to_string(i))));
  }

  for (int i = 0; i < 1000; ++i) {
    REQUIRE(a.recorder.wait(Kind::message).text == std::to_string(i));
  }
  CHECK(a.transport->counters().frames_sent == 1000);
  CHECK(a.transport->counters().bytes_sent == 10 + 90 * 2 + 900 * 3);
  CHECK(b.transport->counters().frames_received == 1000);
}

TEST_CASE("links work over ipc in a folder of this user alone", "[transport][R12][SE-1]") {
  const testing::TemporaryFolder folder;
  const TestRun run;
  auto options = run.options("a");
  options.listen = {folder.path() / "sockets", "", {}};
  Node a(options);
  options.self = run.identity("b");
  Node b(options);
  REQUIRE(a.endpoint().substr(0, 6) == "ipc://");

  link(a, b);

  struct stat status {};
  REQUIRE(::stat((folder.path() / "sockets").c_str(), &status) == 0);
  CHECK((status.st_mode & 07777U) == 0700U);
  REQUIRE(::chmod((folder.path() / "sockets").c_str(), 0755) == 0);
  options.self = run.identity("c");
  const auto refused = Transport::start(options, {});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::refused);
  CHECK_THAT(refused.error().message, Catch::Contains("mode 0755") && Catch::Contains("0700"));
}

TEST_CASE("a frame above 1 MiB is an error that names the bulk path, one of 1 MiB passes", "[transport][R3][error]") {
  const TestRun run;
  Node a(run.options("a"));
  Node b(run.options("b"));
  link(a, b);

  const auto sent = a.transport->send(b.id(), Bytes(kMaxControlFrameBytes + 1));

  REQUIRE_FALSE(sent);
  CHECK(sent.error().code == ErrorCode::invalid_argument);
  CHECK_THAT(sent.error().message, Catch::Contains("1048577 bytes") && Catch::Contains("bulk path"));
  REQUIRE(a.transport->send(b.id(), Bytes(kMaxControlFrameBytes)));
  CHECK(b.recorder.wait(Kind::message).text.size() == kMaxControlFrameBytes);
}

TEST_CASE("a killed peer process is down at once; sending to it says so", "[transport][R4]") {
  const TestRun run;
  Node node(run.options("launcher"));
  const testing::PeerProcess process("echo", run, {"env/0", node.endpoint()});
  const auto peer = node.recorder.wait(Kind::up);

  process.signal(SIGKILL);

  const auto down = node.recorder.wait(Kind::down);
  CHECK(down.instance == peer.instance);
  CHECK(down.code == ErrorCode::target_down);
  CHECK(node.transport->send(peer.instance, bytes_of("x")).error().code == ErrorCode::target_down);
}

TEST_CASE("a frozen peer process is down after its silence", "[transport][R7]") {
  const TestRun run;
  auto options = run.options("launcher");
  options.heartbeat_interval = std::chrono::milliseconds(50);
  options.dead_after = std::chrono::milliseconds(400);
  Node node(options);
  const testing::PeerProcess process("echo", run, {"env/0", node.endpoint()});
  static_cast<void>(node.recorder.wait(Kind::up));

  process.signal(SIGSTOP);

  CHECK_THAT(node.recorder.wait(Kind::down).text, Catch::Contains("silent"));
}

TEST_CASE("64 processes that bind at once get 64 ports", "[transport][R12]") {
  const TestRun run;
  std::vector<std::unique_ptr<testing::PeerProcess>> processes;
  for (int i = 0; i < 64; ++i) {
    processes.push_back(std::make_unique<testing::PeerProcess>(
        "bind", run, std::vector<std::string>{"worker/" + std::to_string(i), "0", "0"}));
  }
  std::set<std::string> endpoints;
  for (const auto& process : processes) {
    endpoints.insert(process->read_line());
  }
  CHECK(endpoints.size() == 64);
}

TEST_CASE("ports come from the range, and a full range is an error that names it", "[transport][R12][pain:L05]") {
  const TestRun run;
  // Where a kernel-chosen port is, a range of two that this test owns can be found.
  auto options = run.options("a");
  std::unique_ptr<Transport> first;
  int lo = 20000;
  while (!first && lo < 30000) {
    options.listen.ports = {static_cast<std::uint16_t>(lo), static_cast<std::uint16_t>(lo + 1)};
    if (auto started = Transport::start(options, {})) {
      first = *std::move(started);
    } else {
      lo += 2;
    }
  }
  REQUIRE(first);
  CHECK(first->endpoints().front() == "tcp://127.0.0.1:" + std::to_string(lo));  // the bulk socket took lo + 1
  options.self = run.identity("b");

  const auto second = Transport::start(options, {});

  REQUIRE_FALSE(second);
  CHECK(second.error().code == ErrorCode::already_exists);
  CHECK_THAT(second.error().message, Catch::Contains("[" + std::to_string(lo) + ", " + std::to_string(lo + 1) + "]"));
}

TEST_CASE("two processes that dial each other at once end up with one link", "[transport][R6]") {
  const TestRun run;
  for (int round = 0; round < 20; ++round) {
    Node a(run.options("a"));
    Node b(run.options("b"));

    a.transport->dial({b.endpoint(), b.id()});
    b.transport->dial({a.endpoint(), a.id()});

    REQUIRE(a.recorder.wait(Kind::up).instance == b.id());
    REQUIRE(b.recorder.wait(Kind::up).instance == a.id());
    REQUIRE(a.transport->send(b.id(), bytes_of("from a")));
    REQUIRE(b.transport->send(a.id(), bytes_of("from b")));
    REQUIRE(b.recorder.wait(Kind::message).text == "from a");
    REQUIRE(a.recorder.wait(Kind::message).text == "from b");
    REQUIRE(a.recorder.count(Kind::down) + b.recorder.count(Kind::down) == 0);
    REQUIRE(a.recorder.count(Kind::dial_failed) + b.recorder.count(Kind::dial_failed) == 0);
  }
}

TEST_CASE("close tells the other side why, from either end", "[transport]") {
  const TestRun run;
  const bool dialler_closes = GENERATE(true, false);
  Node a(run.options("a"));
  Node b(run.options("b"));
  link(a, b);
  Node& closing = dialler_closes ? a : b;
  Node& other = dialler_closes ? b : a;

  closing.transport->close(other.id(), "the run is over");

  const auto down = other.recorder.wait(Kind::down);
  CHECK(down.code == ErrorCode::refused);
  CHECK(down.text == "the run is over");
  CHECK(closing.recorder.wait(Kind::down).text == "the run is over");
  link(a, b);
}

TEST_CASE("a dial to nobody, and to somebody else than expected, ends in target_down", "[transport][error]") {
  const TestRun run;
  Node a(run.options("a"));
  Node b(run.options("b"));
  std::string gone;
  { gone = Node(run.options("c")).endpoint(); }

  a.transport->dial({gone, std::nullopt, std::chrono::milliseconds(100)});
  const auto nobody = a.recorder.wait(Kind::dial_failed);
  a.transport->dial({b.endpoint(), make_random_id<InstanceId>()});
  const auto other = a.recorder.wait(Kind::dial_failed);

  CHECK(nobody.code == ErrorCode::target_down);
  CHECK_THAT(nobody.text, Catch::Contains(gone) && Catch::Contains("100 ms"));
  CHECK(other.code == ErrorCode::target_down);
  CHECK_THAT(other.text, Catch::Contains(to_string(b.self)) && Catch::Contains("expected instance"));
}

TEST_CASE("after a cut and a new dial nothing of the old link is delivered", "[transport][R6][CL-2]") {
  const TestRun run;
  Node a(run.options("a"));
  Node b(run.options("b"));
  testing::TcpRelay relay(b.endpoint());
  a.transport->dial({relay.endpoint(), b.id()});
  static_cast<void>(a.recorder.wait(Kind::up));
  static_cast<void>(b.recorder.wait(Kind::up));
  relay.hold();
  for (int i = 0; i < 100; ++i) {
    REQUIRE(a.transport->send(b.id(), bytes_of("old")));
  }

  relay.cut();

  CHECK(a.recorder.wait(Kind::down).code == ErrorCode::target_down);
  static_cast<void>(b.recorder.wait(Kind::down));
  a.transport->dial({relay.endpoint(), b.id()});
  static_cast<void>(a.recorder.wait(Kind::up));
  REQUIRE(a.transport->send(b.id(), bytes_of("new")));
  CHECK(b.recorder.wait(Kind::message).text == "new");
}

TEST_CASE("a peer that takes nothing costs bounded memory and the sender learns it", "[transport][R3][R7]") {
  const TestRun run;
  auto options = run.options("a");
  options.max_pending_bytes = 8 << 20;
  options.dead_after = std::chrono::milliseconds(60'000);
  Node node(options);
  const testing::PeerProcess process("echo", run, {"env/0", node.endpoint()});
  const auto peer = node.recorder.wait(Kind::up);
  process.signal(SIGSTOP);
  const std::int64_t before = testing::resident_bytes();
  const Bytes body(1 << 20);

  // Far more than any kernel buffer; the end of the loop is the error.
  Expected<void> sent;
  for (int i = 0; i < 1024 && sent; ++i) {
    sent = node.transport->send(peer.instance, body);
  }

  REQUIRE_FALSE(sent);
  CHECK(sent.error().code == ErrorCode::overloaded);
  CHECK_THAT(sent.error().message, Catch::Contains("at most 4096 frames, 8388608 bytes"));
  CHECK(testing::resident_bytes() - before < 64 << 20);
}

TEST_CASE("options out of range are refused before anything is bound", "[transport][error]") {
  const TestRun run;
  const auto code_of = [&](const std::function<void(TransportOptions&)>& change) {
    auto options = run.options("a");
    change(options);
    const auto started = Transport::start(options, {});
    return started ? ErrorCode::internal : started.error().code;
  };
  CHECK(code_of([](auto& o) { o.heartbeat_interval = std::chrono::milliseconds(0); }) == ErrorCode::invalid_argument);
  CHECK(code_of([](auto& o) { o.dead_after = std::chrono::milliseconds(499); }) == ErrorCode::invalid_argument);
  CHECK(code_of([](auto& o) { o.max_pending_frames = 0; }) == ErrorCode::invalid_argument);
  CHECK(code_of([](auto& o) { o.bulk.chunk_bytes = 1; }) == ErrorCode::invalid_argument);
  CHECK(code_of([](auto& o) { o.bulk.window = 33; }) == ErrorCode::invalid_argument);
  CHECK(code_of([](auto& o) { o.listen = {}; }) == ErrorCode::invalid_argument);
  CHECK(code_of([](auto& o) { o.listen.ports = {5, 4}; }) == ErrorCode::invalid_argument);
  CHECK(code_of([](auto& o) { o.listen.ipc_folder = "/tmp/" + std::string(100, 'x'); }) == ErrorCode::invalid_argument);
  CHECK(code_of([](auto& o) { o.listen.tcp_host = "192.0.2.1"; }) == ErrorCode::io_error);
}

}  // namespace
}  // namespace memopd

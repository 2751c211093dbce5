#include "runtime/transport/bulk.hpp"

#include <catch2/catch.hpp>
#include <future>

#include "runtime/base/random.hpp"
#include "runtime/transport/detail/bulk_frame.hpp"
#include "tests/unit/runtime/transport/test_network.hpp"
#include "tests/unit/runtime/transport/test_transport.hpp"

namespace memopd {
namespace {

using testing::Bytes;
using testing::bytes_of;
using testing::Node;
using testing::TestRun;
using Kind = testing::Recorder::Kind;

std::shared_ptr<Bytes> random_bytes(std::size_t size, std::uint64_t seed = 1) {
  auto bytes = std::make_shared<Bytes>(size);
  SplitMix random(seed);
  for (std::byte& byte : *bytes) {
    byte = static_cast<std::byte>(random());
  }
  return bytes;
}

BulkTicket publish(Node& node, const std::shared_ptr<Bytes>& bytes) {
  return node.transport->bulk().publish({bytes, *bytes});
}

/// A fetch into a new buffer.
struct Fetch {
  Fetch(Node& node, const BulkTicket& ticket)
      : target(std::make_shared<Bytes>(ticket.size_bytes)), result(promise->get_future()) {
    id = node.transport->bulk().fetch(ticket, {target, *target},
                                      [p = promise](Expected<void> r) { p->set_value(std::move(r)); });
  }
  Expected<void> wait() {
    REQUIRE(result.wait_for(std::chrono::seconds(30)) == std::future_status::ready);
    return result.get();
  }

  std::shared_ptr<Bytes> target;
  std::shared_ptr<std::promise<Expected<void>>> promise = std::make_shared<std::promise<Expected<void>>>();
  std::future<Expected<void>> result;
  FetchId id = 0;
};

TEST_CASE("64 MiB arrive as they were published, in the clear and under CURVE", "[transport][R3]") {
  const bool encrypt = GENERATE(false, true);
  const TestRun run;
  auto options = run.options("owner");
  options.bulk.encrypt = encrypt;
  Node owner(options);
  options.self = run.identity("reader");
  Node reader(options);
  const auto bytes = random_bytes((64 << 20) + 12345);
  const BulkTicket ticket = publish(owner, bytes);

  Fetch fetch(reader, ticket);

  const auto result = fetch.wait();
  INFO((result ? std::string() : result.error().message));
  REQUIRE(result);
  CHECK(*fetch.target == *bytes);
  CHECK(reader.transport->bulk().counters().bytes_received == static_cast<std::int64_t>(bytes->size()));
  CHECK(reader.transport->bulk().counters().num_resumed == 0);
}

TEST_CASE("small, empty and many objects arrive over one connection", "[transport]") {
  const TestRun run;
  Node owner(run.options("owner"));
  Node reader(run.options("reader"));
  std::vector<std::shared_ptr<Bytes>> objects;
  std::vector<std::unique_ptr<Fetch>> fetches;
  for (std::size_t i = 0; i < 40; ++i) {
    objects.push_back(random_bytes(i * 40'000, i));
    fetches.push_back(std::make_unique<Fetch>(reader, publish(owner, objects.back())));
  }
  for (std::size_t i = 0; i < 40; ++i) {
    REQUIRE(fetches[i]->wait());
    CHECK(*fetches[i]->target == *objects[i]);
  }
}

TEST_CASE("bytes that are not those of the ticket are refused", "[transport][error]") {
  const TestRun run;
  Node owner(run.options("owner"));
  Node reader(run.options("reader"));
  BulkTicket ticket = publish(owner, random_bytes(3 << 20));
  ticket.sha256[0] ^= 1;

  const auto result = Fetch(reader, ticket).wait();

  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::parse_error);
  CHECK_THAT(result.error().message, Catch::Contains(owner.transport->bulk().publish({}).endpoint) &&
                                         Catch::Contains(to_string(ticket.object)) && Catch::Contains("SHA-256"));
}

TEST_CASE("a wrong token, an unknown object and a wrong size have errors of their own", "[transport][SE-1][error]") {
  const TestRun run;
  Node owner(run.options("owner"));
  Node reader(run.options("reader"));
  const BulkTicket ticket = publish(owner, random_bytes(1000));
  BulkTicket forged = ticket;
  forged.token.back() ^= 1;
  BulkTicket unknown = ticket;
  unknown.object = make_random_id<BulkObjectId>();
  BulkTicket larger = ticket;
  larger.size_bytes = 2000;

  BulkTicket bare = ticket;
  bare.token.clear();

  CHECK(Fetch(reader, bare).wait().error().code == ErrorCode::invalid_argument);
  CHECK(Fetch(reader, forged).wait().error().code == ErrorCode::refused);
  CHECK(Fetch(reader, unknown).wait().error().code == ErrorCode::not_found);
  CHECK(Fetch(reader, larger).wait().error().code == ErrorCode::parse_error);
  CHECK(Fetch(reader, ticket).wait());
  CHECK_THAT(owner.recorder.wait_refused(RefusalReason::stranger).text, Catch::Contains("bulk"));
}

TEST_CASE("a target of another size is refused before anything is dialled", "[transport][error]") {
  const TestRun run;
  Node owner(run.options("owner"));
  Node reader(run.options("reader"));
  BulkTicket ticket = publish(owner, random_bytes(1000));
  const auto target = std::make_shared<Bytes>(999);
  std::promise<Expected<void>> promise;

  reader.transport->bulk().fetch(ticket, {target, *target}, [&](Expected<void> r) { promise.set_value(std::move(r)); });

  const auto result = promise.get_future().get();
  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::invalid_argument);
  CHECK_THAT(result.error().message, Catch::Contains("1000 bytes") && Catch::Contains("999"));
}

TEST_CASE("published bytes live until they are withdrawn and the last chunk is gone", "[transport][R3]") {
  const TestRun run;
  Node owner(run.options("owner"));
  Node reader(run.options("reader"));
  auto bytes = random_bytes(4 << 20);
  const std::weak_ptr<Bytes> watched = bytes;
  const BulkTicket ticket = publish(owner, bytes);
  bytes.reset();
  REQUIRE(Fetch(reader, ticket).wait());
  CHECK_FALSE(watched.expired());

  owner.transport->bulk().withdraw(ticket.object);

  testing::wait_until([&] { return watched.expired(); }, "the release of the bytes");
  CHECK(owner.transport->bulk().counters().chunks_in_flight == 0);
  CHECK(Fetch(reader, ticket).wait().error().code == ErrorCode::not_found);
}

TEST_CASE("a receiver that stalls holds its window and costs the sender less than 64 MiB", "[transport][R3]") {
  const TestRun run;
  Node owner(run.options("owner"));
  const auto bytes = random_bytes(128 << 20);
  const BulkTicket ticket = publish(owner, bytes);
  detail::ZmqContext context;
  detail::ZmqSocket stalled(context, ZMQ_DEALER);
  stalled.set(ZMQ_PLAIN_USERNAME, "bulk");
  stalled.set(ZMQ_PLAIN_PASSWORD, ticket.token);
  stalled.set(ZMQ_RCVHWM, 1);
  REQUIRE(stalled.connect(ticket.endpoint));
  const std::int64_t before = testing::resident_bytes();

  // It asks for more than anybody may have and never reads.
  detail::ZmqMessage request(*encode_frame(detail::BulkRequest{1, ticket.object, 0, 1'000'000}));
  REQUIRE(stalled.send(request) == detail::SendStatus::sent);

  const std::int64_t window = std::int64_t{detail::kMaxWindow} * ticket.chunk_bytes;
  testing::wait_until([&] { return owner.transport->bulk().counters().bytes_sent >= window; }, "a full window");
  Node reader(run.options("reader"));
  REQUIRE(Fetch(reader, publish(owner, random_bytes(1 << 20))).wait());  // others are served meanwhile
  CHECK(owner.transport->bulk().counters().bytes_sent == window + (1 << 20));
  CHECK(testing::resident_bytes() - before < 64 << 20);
}

TEST_CASE("pings and heartbeats pass while bulk flows", "[transport][R3][pain:L11]") {
  const TestRun run;
  auto options = run.options("owner");
  options.heartbeat_interval = std::chrono::milliseconds(100);
  Node owner(options, [](Transport& transport, const Peer& peer, std::span<const std::byte> body) {
    return transport.send(peer.identity.instance, body);
  });
  options.self = run.identity("reader");
  Node reader(options);
  link(reader, owner);
  std::vector<std::unique_ptr<Fetch>> fetches;
  const BulkTicket ticket = publish(owner, random_bytes(64 << 20));
  for (int i = 0; i < 4; ++i) {
    fetches.push_back(std::make_unique<Fetch>(reader, ticket));
  }

  int num_pings = 0;
  while (fetches.back()->result.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    REQUIRE(reader.transport->send(owner.id(), bytes_of("ping")));
    REQUIRE(reader.recorder.wait(Kind::message).text == "ping");
    ++num_pings;
  }

  // Behind 256 MiB on one link a ping would wait for most of it: two or three would pass.
  CHECK(num_pings >= 16);
  for (const auto& fetch : fetches) {
    CHECK(fetch->wait());
  }
  CHECK(reader.recorder.count(Kind::down) == 0);  // no connection went without its heartbeats
  CHECK(owner.recorder.count(Kind::down) == 0);
}

TEST_CASE("a fetch goes on at the last whole chunk after its connection was cut", "[transport][R3]") {
  const TestRun run;
  Node owner(run.options("owner"));
  Node reader(run.options("reader"));
  const auto bytes = random_bytes(96 << 20);
  BulkTicket ticket = publish(owner, bytes);
  testing::TcpRelay relay(ticket.endpoint);
  ticket.endpoint = relay.endpoint();
  Fetch fetch(reader, ticket);
  const auto received = [&] { return reader.transport->bulk().counters().bytes_received; };
  testing::wait_until([&] { return received() > 0; }, "the first chunk");

  relay.cut();

  REQUIRE(fetch.wait());
  CHECK(*fetch.target == *bytes);
  CHECK(received() == static_cast<std::int64_t>(bytes->size()));  // nothing came twice
  CHECK(reader.transport->bulk().counters().num_resumed >= 1);
}

TEST_CASE("abort ends a fetch once, and the connection serves the next", "[transport][error]") {
  const TestRun run;
  Node owner(run.options("owner"));
  Node reader(run.options("reader"));
  const auto bytes = random_bytes(32 << 20);
  BulkTicket ticket = publish(owner, bytes);
  testing::TcpRelay relay(ticket.endpoint);
  ticket.endpoint = relay.endpoint();
  relay.hold();
  Fetch fetch(reader, ticket);

  reader.transport->bulk().abort(fetch.id);

  const auto result = fetch.wait();
  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::refused);
  relay.release();
  CHECK(Fetch(reader, ticket).wait());
}

TEST_CASE("a fetch from a process that is gone, or from one that is silent, ends", "[transport][error]") {
  const TestRun run;
  auto options = run.options("reader");
  options.bulk.stall_timeout = std::chrono::milliseconds(300);
  Node reader(options);
  BulkTicket gone;
  {
    Node owner(run.options("owner"));
    gone = publish(owner, random_bytes(1000));
  }
  Node owner(run.options("owner", 2));
  BulkTicket silent = publish(owner, random_bytes(1000));
  testing::TcpRelay relay(silent.endpoint);
  silent.endpoint = relay.endpoint();
  CHECK(Fetch(reader, silent).wait());
  relay.hold();

  CHECK(Fetch(reader, gone).wait().error().code == ErrorCode::target_down);
  const auto result = Fetch(reader, silent).wait();
  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::timeout);
  CHECK_THAT(result.error().message, Catch::Contains("no chunk for 300 ms at 0 of 1000 bytes"));
}

TEST_CASE("a transport that ends answers its fetches", "[transport][error]") {
  const TestRun run;
  Node owner(run.options("owner"));
  auto reader = std::make_unique<Node>(run.options("reader"));
  BulkTicket ticket = publish(owner, random_bytes(1 << 20));
  testing::TcpRelay relay(ticket.endpoint);
  ticket.endpoint = relay.endpoint();
  relay.hold();
  Fetch fetch(*reader, ticket);

  reader.reset();

  const auto result = fetch.wait();

  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::target_down);
}

}  // namespace
}  // namespace memopd

// Objects from node to node: two servers, two transports, the ticket handed over by the test.
#include <catch2/catch.hpp>
#include <cstring>
#include <future>

#include "tests/unit/runtime/objects/test_objects.hpp"
#include "tests/unit/runtime/objects/test_values.hpp"
#include "tests/unit/runtime/transport/test_network.hpp"
#include "tests/unit/runtime/transport/test_transport.hpp"

namespace memopd {
namespace {

using std::chrono::milliseconds;
using testing::ObjectNode;
using testing::TestRun;

TransportOptions bulk_options(const TestRun& run, const std::string& role) {
  auto options = run.options(role);
  options.bulk.stall_timeout = milliseconds(2000);
  return options;
}

/// A node of the run.
struct Host {
  explicit Host(const TestRun& run, const std::string& role, std::uint64_t max_bytes = 0)
      : transport(std::make_unique<testing::Node>(bulk_options(run, role))),
        node(max_bytes, &transport->transport->bulk()) {}

  std::unique_ptr<testing::Node> transport;
  ObjectNode node;
};

/// Pulls and waits for the end.
class Pull {
 public:
  Pull(Host& host, const ObjectRef& ref, const BulkTicket& ticket, const Scope& scope = {ScopeKind::step, 5}) {
    host.node.server().pull(ref, ticket, scope, "blob",
                            [p = promise_](Expected<void> r) { p->set_value(std::move(r)); });
  }
  Expected<void> wait() {
    REQUIRE(result_.wait_for(std::chrono::seconds(30)) == std::future_status::ready);
    return result_.get();
  }

 private:
  std::shared_ptr<std::promise<Expected<void>>> promise_ = std::make_shared<std::promise<Expected<void>>>();
  std::future<Expected<void>> result_ = promise_->get_future();
};

TEST_CASE("an object of any size is pulled from another node bit by bit and wakes who waits", "[objects][R3]") {
  const std::size_t size = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{512 << 10}, std::size_t{8 << 20});
  const TestRun run;
  Host owner(run, "agent/0");
  Host reader(run, "agent/1");
  const auto bytes = testing::pattern(size, 3);
  const auto store = owner.node.connect(1);
  const auto remote = reader.node.connect(2);
  const ObjectRef ref = store->put_blob(bytes, {ScopeKind::step, 5});
  const auto ticket = owner.node.server().offer(ref);
  REQUIRE(ticket);
  auto waited = std::async(std::launch::async, [&] { return remote->wait(ref, milliseconds(30'000)); });

  CHECK(Pull(reader, ref, *ticket).wait());

  CHECK(waited.get());
  const auto found = remote->get_blob(ref);
  REQUIRE(found);
  REQUIRE(found->bytes.size() == size);
  CHECK(std::equal(bytes.begin(), bytes.end(), found->bytes.begin()));
  CHECK(remote->release_scope({ScopeKind::step, 5}) == 1);
  CHECK(remote->get_blob(ref).error().message == "object " + to_string(ref) + " was released");
}

TEST_CASE("an object is offered under one ticket until it is released", "[objects]") {
  const TestRun run;
  Host owner(run, "agent/0");
  Host reader(run, "agent/1");
  const auto store = owner.node.connect(1);
  const ObjectRef ref = store->put_blob(testing::pattern(1000, 1), {ScopeKind::version, 2});
  const auto ticket = owner.node.server().offer(ref);
  REQUIRE(ticket);
  CHECK(owner.node.server().offer(ref)->object == ticket->object);
  CHECK(owner.node.server().describe(ref)->scope == Scope{ScopeKind::version, 2});
  CHECK(owner.node.server().describe(ref)->type == "blob");

  CHECK(owner.node.server().release_scope({ScopeKind::version, 2}) == 1);

  const auto pulled = Pull(reader, ref, *ticket).wait();
  REQUIRE_FALSE(pulled);
  CHECK(pulled.error().code == ErrorCode::not_found);
  CHECK_THAT(pulled.error().message, Catch::Contains("object " + to_string(ref) + " from another node"));
  CHECK(owner.node.server().offer(ref).error().code == ErrorCode::not_found);
  CHECK(owner.node.server().describe(ref).error().code == ErrorCode::not_found);
}

TEST_CASE("a pull from an owner that goes away ends with its error and leaves nothing behind", "[objects][error]") {
  const TestRun run;
  auto owner = std::make_unique<Host>(run, "agent/0");
  Host reader(run, "agent/1");
  const auto store = owner->node.connect(1);
  const ObjectRef ref = store->put_blob(testing::pattern(8 << 20, 1), {});
  auto ticket = owner->node.server().offer(ref);
  REQUIRE(ticket);
  testing::TcpRelay relay(ticket->endpoint);
  ticket->endpoint = relay.endpoint();
  relay.hold();
  Pull pull(reader, ref, *ticket);

  owner.reset();
  relay.cut();

  const auto pulled = pull.wait();
  REQUIRE_FALSE(pulled);
  CHECK(pulled.error().code == ErrorCode::target_down);
  CHECK(reader.node.server().counters().objects.num_objects == 0);
  CHECK(testing::num_memory_files() == 0);
}

TEST_CASE("failed pulls leave no descriptor and no room taken", "[objects][error]") {
  const TestRun run;
  Host owner(run, "agent/0");
  Host reader(run, "agent/1", 1000);
  const auto store = owner.node.connect(1);
  const auto remote = reader.node.connect(2);
  const ObjectRef ref = store->put_blob(testing::pattern(600, 1), {});
  const auto ticket = owner.node.server().offer(ref);
  REQUIRE(ticket);
  auto withdrawn = *ticket;
  withdrawn.object = make_random_id<BulkObjectId>();
  REQUIRE_FALSE(Pull(reader, ref, withdrawn).wait());  // the connection is made
  const std::size_t before = testing::num_descriptors();
  for (int i = 0; i < 5; ++i) {
    CHECK(Pull(reader, ref, withdrawn).wait().error().code == ErrorCode::not_found);
  }
  testing::wait_until([&] { return testing::num_descriptors() == before; }, "descriptors to be closed");

  CHECK(Pull(reader, ref, *ticket).wait());
  CHECK(testing::num_descriptors() == before + 1);
  const ObjectRef second = store->put_blob(testing::pattern(401, 1), {});
  const auto refused = Pull(reader, second, *owner.node.server().offer(second)).wait();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::overloaded);
  CHECK_THAT(refused.error().message,
             Catch::Contains("401 bytes beside 600 bytes of other objects exceed max_bytes 1000"));
  CHECK(Pull(reader, ref, withdrawn).wait());  // it is here already
}

TEST_CASE("a pulled object whose bytes are not those of its ticket is not kept", "[objects][error]") {
  const TestRun run;
  Host owner(run, "agent/0");
  Host reader(run, "agent/1");
  const auto store = owner.node.connect(1);
  const ObjectRef ref = store->put_blob(testing::pattern(1000, 1), {});
  auto ticket = owner.node.server().offer(ref);
  REQUIRE(ticket);
  ticket->sha256[0] ^= 1;

  CHECK(Pull(reader, ref, *ticket).wait().error().code == ErrorCode::parse_error);

  CHECK(reader.node.server().counters().objects.num_objects == 0);
}

}  // namespace
}  // namespace memopd

// Pulls whose end the test scripts; object_bulk_test.cpp has those between transports.
#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>

#include "tests/unit/runtime/objects/test_objects.hpp"
#include "tests/unit/runtime/objects/test_values.hpp"

namespace memopd {
namespace {

using testing::ObjectNode;

/// A Bulk whose fetches end when the test says so.
class ScriptedBulk final : public Bulk {
 public:
  BulkTicket publish(BulkSource source) override {
    BulkTicket ticket;
    ticket.object = make_random_id<BulkObjectId>();
    ticket.size_bytes = source.bytes.size();
    return ticket;
  }
  void withdraw(const BulkObjectId&) override {}
  FetchId fetch(BulkTicket, BulkTarget target, Done done) override {
    target_ = std::move(target);
    done_ = std::move(done);
    return 1;
  }
  void abort(FetchId) override {}
  [[nodiscard]] BulkCounters counters() const override { return {}; }

  void write(std::span<const std::byte> bytes) { std::copy(bytes.begin(), bytes.end(), target_.bytes.begin()); }
  /// The target is kept beyond the end, as a thread that still hashes it would.
  void end(Expected<void> result) { std::exchange(done_, nullptr)(std::move(result)); }

 private:
  BulkTarget target_;
  Done done_;
};

BulkTicket ticket_of(std::uint64_t size_bytes) {
  BulkTicket ticket;
  ticket.size_bytes = size_bytes;
  return ticket;
}

TEST_CASE("a pull that ends half way keeps nothing", "[objects][error]") {
  ScriptedBulk bulk;
  ObjectNode node(1000, &bulk);
  std::vector<Expected<void>> results;
  node.server().pull({1, 1}, ticket_of(1000), {}, "blob", [&](Expected<void> r) { results.push_back(std::move(r)); });
  REQUIRE(testing::num_memory_files() == 1);
  bulk.write(testing::pattern(500, 1));

  bulk.end(unexpected(ErrorCode::target_down, "its owner is gone"));

  REQUIRE(results.size() == 1);
  REQUIRE_FALSE(results[0]);
  CHECK(results[0].error().code == ErrorCode::target_down);
  CHECK(testing::num_memory_files() == 0);
  CHECK(node.server().counters().objects.num_objects == 0);
  node.server().pull({1, 1}, ticket_of(1000), {}, "blob", [&](Expected<void> r) { results.push_back(std::move(r)); });
  bulk.end({});
  CHECK(results.back());  // the room was given back
}

TEST_CASE("an object whose scope ends on its way here is not kept", "[objects][error]") {
  ScriptedBulk bulk;
  ObjectNode node(0, &bulk);
  const auto store = node.connect(2);
  Expected<void> result;
  node.server().pull({1, 1}, ticket_of(10), {ScopeKind::step, 3}, "blob", [&](Expected<void> r) { result = r; });

  CHECK(store->release_scope({ScopeKind::step, 3}) == 0);
  bulk.end({});

  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::not_found);
  CHECK(testing::num_memory_files() == 0);
}

TEST_CASE("a pull may end after its server", "[objects][error]") {
  ScriptedBulk bulk;
  ObjectNode node(0, &bulk);
  Expected<void> result;
  node.server().pull({1, 1}, ticket_of(10), {}, "blob", [&](Expected<void> r) { result = r; });

  node.end_server();
  bulk.end({});

  CHECK_FALSE(result);
  CHECK(testing::num_memory_files() == 0);
}

TEST_CASE("a server without bulk says so", "[objects][error]") {
  ObjectNode node;
  Expected<void> pulled;
  node.server().pull({1, 1}, {}, {}, "blob", [&](Expected<void> result) { pulled = std::move(result); });

  CHECK(node.server().offer({1, 1}).error().code == ErrorCode::unsupported);
  REQUIRE_FALSE(pulled);
  CHECK(pulled.error().code == ErrorCode::unsupported);
}

}  // namespace
}  // namespace memopd

// Pulls whose end the test scripts; object_bulk_test.cpp has those between transports.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <future>
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
    return ++num_fetches_;
  }
  void abort(FetchId fetch) override { aborted_ = fetch; }
  [[nodiscard]] BulkCounters counters() const override { return {}; }

  void write(std::span<const std::byte> bytes) { std::copy(bytes.begin(), bytes.end(), target_.bytes.begin()); }
  /// The target is kept beyond the end, as a thread that still hashes it would.
  void end(Expected<void> result) { std::exchange(done_, nullptr)(std::move(result)); }
  [[nodiscard]] FetchId num_fetches() const { return num_fetches_; }
  [[nodiscard]] FetchId aborted() const { return aborted_; }

 private:
  FetchId num_fetches_ = 0;
  FetchId aborted_ = 0;
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

/// A node whose processes look for object 1 of store 1, which is elsewhere.
struct Searching {
  ScriptedBulk bulk;
  std::atomic<int> num_asked{0};
  ObjectNode node{0, &bulk, 1024, [this](const ObjectRef&) { ++num_asked; }};
  std::unique_ptr<ObjectStore> store = node.connect(2);
  static constexpr ObjectRef kRef{1, 1};
  static constexpr Scope kStep{ScopeKind::step, 3};

  std::future<Expected<Blob>> get() {
    return std::async(std::launch::async, [this] { return store->get_blob(kRef); });
  }
  /// Questions so far, and readers that wait for the answer.
  void wait_for(int asked, int waiting = 1) {
    testing::wait_until([&] { return num_asked == asked && node.server().counters().num_waiting == waiting; },
                        "readers to wait");
  }
  void pull() {
    node.server().pull(kRef, ticket_of(10), kStep, "blob", [](const Expected<void>&) {});
  }
};

std::string failure_of(std::future<Expected<Blob>>& reader) {
  REQUIRE(reader.wait_for(std::chrono::seconds(30)) == std::future_status::ready);
  const auto blob = reader.get();
  REQUIRE_FALSE(blob);
  return std::string(to_string(blob.error().code)) + ": " +
         blob.error().message.substr(blob.error().message.find_first_not_of(": ", 40));
}

TEST_CASE("all who look for an object of another node share one question and one pull", "[objects][OR-1]") {
  Searching reader;
  auto first = reader.get();
  reader.wait_for(1);
  auto second = reader.get();
  reader.wait_for(1, 2);

  reader.pull();
  reader.bulk.write(testing::pattern(10, 1));
  reader.bulk.end({});

  CHECK(first.get()->bytes.size() == 10);
  CHECK(second.get()->bytes.size() == 10);
  CHECK(reader.get().get());
  CHECK(reader.num_asked == 1);
  CHECK(reader.bulk.num_fetches() == 1);
}

TEST_CASE("an object that is released here before its ticket comes is not pulled", "[objects][error][OR-2]") {
  Searching reader;
  auto waiting = reader.get();
  reader.wait_for(1);
  SECTION("by scope") { CHECK(reader.store->release_scope(Searching::kStep) == 0); }
  SECTION("by reference") { CHECK_FALSE(reader.store->release(Searching::kRef)); }

  reader.pull();

  CHECK(failure_of(waiting) == "not_found: released before it came");
  CHECK(reader.bulk.num_fetches() == 0);
  CHECK(testing::num_memory_files() == 0);
}

TEST_CASE("a pull that failed is the answer of whoever waits, and the next one asks again", "[objects][error][OR-1]") {
  Searching reader;
  auto waiting = reader.get();
  reader.wait_for(1);
  reader.pull();
  reader.bulk.end(unexpected(ErrorCode::parse_error, "another hash"));
  CHECK(failure_of(waiting) == "parse_error: from another node: another hash");

  auto next = reader.get();
  reader.wait_for(2);
  reader.pull();
  reader.bulk.end({});
  CHECK(next.get());
}

TEST_CASE("a search that fails aborts its pull, whose end is no answer to whoever asks again",
          "[objects][error][OR-1]") {
  Searching reader;
  auto waiting = reader.get();
  reader.wait_for(1);
  reader.pull();

  reader.node.server().fail(Searching::kRef, {ErrorCode::not_found, "object " + to_string(Searching::kRef) + " lost"});
  CHECK(failure_of(waiting) == "not_found: lost");
  CHECK(reader.bulk.aborted() == 1);

  auto next = reader.get();
  reader.wait_for(2);
  reader.bulk.end(unexpected(ErrorCode::refused, "aborted"));
  CHECK(testing::num_memory_files() == 0);
  reader.pull();
  reader.bulk.end({});
  CHECK(next.get());
  reader.node.server().fail(Searching::kRef, {ErrorCode::not_found, "late"});
  CHECK(reader.bulk.aborted() == 1);
  CHECK(reader.get().get());
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

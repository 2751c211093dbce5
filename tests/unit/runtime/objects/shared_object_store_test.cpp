#include "runtime/objects/shared_object_store.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <thread>

#include "runtime/wire/codec.hpp"
#include "tests/unit/runtime/objects/test_objects.hpp"
#include "tests/unit/runtime/objects/test_values.hpp"
#include "tests/unit/runtime/transport/test_transport.hpp"

namespace memopd {
namespace {

using std::chrono::milliseconds;
using testing::ChildProcess;
using testing::ObjectNode;

std::string name_of(const ObjectRef& ref) { return std::to_string(ref.high) + " " + std::to_string(ref.low); }

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

/// What another process of the node gets for `value`, encoded again: the codec keeps every bit.
template <class T>
void check_round_trip(const T& value) {
  const ObjectNode node;
  const auto writer = node.connect(1);
  const auto reader = node.connect(2);

  const ObjectRef ref = writer->put(std::make_shared<const T>(value), {ScopeKind::step, 1});
  const auto found = reader->get<T>(ref);

  REQUIRE(found);
  CHECK(encode(**found) == encode(value));
}

TEST_CASE("an object that a killed process put is there for the others", "[objects][R14]") {
  const ObjectNode node;
  const auto store = node.connect(1);
  ChildProcess child({node.socket(), "2"});
  REQUIRE(child.read_line() == "ready");
  const ObjectRef weights = child.ask_ref("put_weights 7");
  const ObjectRef blob = child.ask_ref("put_blob 100000 5");
  const auto mapped = store->get_blob(blob);
  REQUIRE(mapped);

  child.kill();

  CHECK(equal(mapped->bytes, testing::pattern(100'000, 5)));
  const auto again = store->get_blob(blob);
  REQUIRE(again);
  CHECK(equal(again->bytes, testing::pattern(100'000, 5)));
  const auto found = store->get<WeightSet>(weights);
  REQUIRE(found);
  CHECK(encode(**found) == encode(testing::weights(7)));
}

TEST_CASE("a reader in another process maps the bytes that were put here, beyond their release", "[objects][R14]") {
  const ObjectNode node;
  const auto store = node.connect(1);
  ChildProcess child({node.socket(), "2"});
  REQUIRE(child.read_line() == "ready");
  const auto bytes = testing::pattern(1 << 20, 9);
  const ObjectRef ref = store->put_blob(bytes, {ScopeKind::step, 4});

  CHECK(child.ask("map " + name_of(ref)) == "mapped");
  CHECK(store->release_scope({ScopeKind::step, 4}) == 1);

  CHECK(child.ask("sum") == "sum " + std::to_string(testing::sum(bytes)));
  CHECK(store->get_blob(ref).error().message == "object " + to_string(ref) + " was released");
}

TEST_CASE("a get where the object is held gives that object", "[objects]") {
  const ObjectNode node;
  const auto store = node.connect(1);
  auto object = std::make_shared<const WeightSet>(testing::weights(1));
  const ObjectRef ref = store->put(object, {ScopeKind::version, 1});

  CHECK(store->get<WeightSet>(ref)->get() == object.get());
  object.reset();

  const auto decoded = store->get<WeightSet>(ref);
  REQUIRE(decoded);
  CHECK(encode(**decoded) == encode(testing::weights(1)));
  CHECK(store->get<WeightSet>(ref)->get() == decoded->get());
}

TEST_CASE("packs, scores, steps and weights reach another process bit by bit", "[objects]") {
  PackedBatch pack;
  pack.input_ids = {1, -2, 2'000'000'000};
  pack.cu_seqlens_q = {0, 3};
  pack.invocations.push_back({{"train", 1, 2, 3}, 4, 5, 0, 3, {}});
  check_round_trip(pack);

  TeacherScores scores;
  scores.hidden = {"hidden", DType::float32, {3, 2}, testing::hard_bytes()};
  scores.row_valid = {1, 0, 1};
  scores.head_fingerprint = 0xffff'ffff'ffff'fff1;
  check_round_trip(scores);

  StepBatch step;
  step.step = 7;
  step.trajectories.emplace_back();
  auto& invocation = step.trajectories.back().invocations.emplace_back();
  for (const std::uint32_t bits : testing::kHardFloats) {
    invocation.rollout_log_probs.push_back(std::bit_cast<float>(bits));
  }
  step.trajectories.back().rewards = {{"final", std::bit_cast<double>(std::uint64_t{0xfff0'0000'dead'beef})},
                                      {"tiny", 5e-324}};
  step.scores.push_back({{"val", 1, 1, 1}, 0, 0, {1, 2}, 3, 4, 5, {}});
  check_round_trip(step);
  check_round_trip(testing::weights(3));
}

TEST_CASE("a blob written in place is put without another copy and read as written", "[objects]") {
  const ObjectNode node;
  const auto writer = node.connect(1);
  const auto reader = node.connect(2);
  const std::size_t size = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{70'000});
  const auto bytes = testing::pattern(size, 3);
  auto blob = writer->allocate_blob(size);
  REQUIRE(blob);
  REQUIRE((*blob)->bytes().size() == size);
  std::copy(bytes.begin(), bytes.end(), (*blob)->bytes().begin());

  const ObjectRef ref = (*blob)->seal_and_put({ScopeKind::manual, 1});

  const auto found = reader->get_blob(ref);
  REQUIRE(found);
  CHECK(equal(found->bytes, bytes));
  CHECK(equal(writer->get_blob(writer->put_blob(bytes, {}))->bytes, bytes));
}

TEST_CASE("a lost object is named, with why it is not there", "[objects][error]") {
  const ObjectNode node;
  const auto store = node.connect(0xa1);
  const ObjectRef ref = store->put_blob({}, {ScopeKind::step, 1});
  REQUIRE(store->release(ref));

  CHECK(store->get_blob(ref).error().code == ErrorCode::not_found);
  CHECK(store->get_blob(ref).error().message == "object 00000000000000a1-0000000000000001 was released");
  CHECK(store->get_blob({0xa1, 2}).error().message ==
        "object 00000000000000a1-0000000000000002 was never put on this node");
  CHECK(store->release(ref).error().code == ErrorCode::not_found);
}

TEST_CASE("another type than the one put is refused, here and elsewhere", "[objects][error]") {
  const ObjectNode node;
  const auto writer = node.connect(1);
  const auto reader = node.connect(2);
  const auto object = std::make_shared<const WeightSet>(testing::weights(1));
  const ObjectRef ref = writer->put(object, {ScopeKind::step, 4});

  CHECK(writer->get<PackedBatch>(ref).error().code == ErrorCode::bad_schema);
  CHECK(reader->get<PackedBatch>(ref).error().code == ErrorCode::bad_schema);
  CHECK_THAT(reader->get_blob(ref).error().message, Catch::Contains("of step 4 holds another type"));
}

TEST_CASE("what has no fields stays in its process and says so elsewhere", "[objects][error]") {
  const ObjectNode node;
  const auto writer = node.connect(1);
  const auto reader = node.connect(2);
  const ObjectRef ref = writer->put(std::make_shared<const std::string>("local"), {ScopeKind::step, 1});

  REQUIRE(writer->get<std::string>(ref));
  CHECK(**writer->get<std::string>(ref) == "local");
  CHECK(reader->get<std::string>(ref).error().code == ErrorCode::not_found);
  CHECK_THAT(reader->get<std::string>(ref).error().message, Catch::Contains("its type has no fields"));
  CHECK(writer->release_scope({ScopeKind::step, 1}) == 1);
  CHECK_FALSE(writer->get<std::string>(ref));
}

TEST_CASE("release_scope ends what all processes put under it and nothing else", "[objects]") {
  const ObjectNode node;
  const auto first = node.connect(1);
  const auto second = node.connect(2);
  const auto bytes = testing::pattern(10, 1);
  const ObjectRef a = first->put_blob(bytes, {ScopeKind::step, 1});
  const ObjectRef b = second->put_blob(bytes, {ScopeKind::step, 1});
  const ObjectRef other = second->put_blob(bytes, {ScopeKind::version, 1});

  CHECK(first->release_scope({ScopeKind::step, 1}) == 2);

  CHECK_FALSE(first->get_blob(a));
  CHECK_FALSE(first->get_blob(b));
  CHECK(first->get_blob(other));
  CHECK(first->counters().num_objects == 1);
  CHECK(first->counters().size_bytes == 10);
  CHECK(first->counters().num_released == 2);
}

TEST_CASE("wait ends when the object is put, and at its deadline otherwise", "[objects]") {
  const ObjectNode node;
  const auto writer = node.connect(1);
  const auto reader = node.connect(2);
  Expected<void> waited = unexpected(ErrorCode::internal, "not run");
  std::thread thread([&] { waited = reader->wait({1, 1}, milliseconds(30'000)); });
  testing::wait_until([&] { return const_cast<ObjectNode&>(node).server().counters().num_connections == 3; }, "wait");

  const ObjectRef ref = writer->put_blob({}, {});
  thread.join();

  CHECK(waited);
  CHECK(reader->wait(ref, milliseconds(0)));
  CHECK(reader->wait({1, 2}, milliseconds(1)).error().code == ErrorCode::timeout);
  REQUIRE(writer->release(ref));
  CHECK(reader->wait(ref, milliseconds(30'000)).error().code == ErrorCode::not_found);
}

TEST_CASE("a put that was refused is explained by get, for its owner and for the others", "[objects][error]") {
  const ObjectNode node(1000);
  const auto writer = node.connect(1);
  const auto reader = node.connect(2);
  const ObjectRef small = writer->put_blob(testing::pattern(600, 1), {});

  const ObjectRef large = writer->put_blob(testing::pattern(401, 1), {});

  const std::string reason = "401 bytes beside 600 bytes of other objects exceed max_bytes 1000";
  CHECK(writer->get_blob(large).error().code == ErrorCode::overloaded);
  CHECK_THAT(writer->get_blob(large).error().message, Catch::Contains(reason));
  CHECK(reader->get_blob(large).error().code == ErrorCode::overloaded);
  CHECK_THAT(reader->get_blob(large).error().message, Catch::Contains(reason));
  REQUIRE(writer->release(small));
  CHECK(writer->get_blob(writer->put_blob(testing::pattern(1000, 1), {})));
}

TEST_CASE("without its server a store says so in every answer, and put returns", "[objects][error]") {
  ObjectNode node;
  const auto store = node.connect(1);
  const ObjectRef before = store->put_blob({}, {});

  node.end_server();

  const std::string gone = "object server of this node is gone";
  CHECK(store->get_blob(before).error().code == ErrorCode::target_down);
  CHECK_THAT(store->get_blob(before).error().message, Catch::Contains(gone));
  const ObjectRef lost = store->put_blob({}, {});
  CHECK(store->get_blob(lost).error().code == ErrorCode::target_down);
  CHECK_THAT(store->get_blob(lost).error().message, Catch::Contains(gone));
  CHECK(store->wait(before, milliseconds(30'000)).error().code == ErrorCode::target_down);
  CHECK(connect_object_store({node.socket(), 1, milliseconds(1)}).error().code == ErrorCode::target_down);
}

TEST_CASE("many threads put and get at once", "[objects]") {
  const ObjectNode node;
  const auto store = node.connect(1);
  std::atomic<int> num_wrong = 0;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 50; ++i) {
        const auto bytes = testing::pattern(100, 100 * t + i);
        const auto found = store->get_blob(store->put_blob(bytes, {}));
        num_wrong += found && equal(found->bytes, bytes) ? 0 : 1;
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  CHECK(num_wrong == 0);
  CHECK(store->counters().num_objects == 200);
}

}  // namespace
}  // namespace memopd

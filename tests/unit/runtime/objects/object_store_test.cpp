#include "runtime/objects/object_store.hpp"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace memopd {
namespace {

std::shared_ptr<const std::string> text(const char* value) { return std::make_shared<const std::string>(value); }

TEST_CASE("get returns the very object that was put, without a copy", "[objects]") {
  const auto store = make_local_object_store();
  const auto object = text("weights");

  const ObjectRef ref = store->put(object, {ScopeKind::manual, 0});

  const auto found = store->get<std::string>(ref);
  REQUIRE(found);
  CHECK(found->get() == object.get());
}

TEST_CASE("a lost object is an error that names it and says why", "[objects][error]") {
  const auto store = make_local_object_store(0xa1);
  const ObjectRef ref = store->put(text("gone"), {ScopeKind::manual, 0});
  REQUIRE(store->release(ref));

  const auto released = store->get<std::string>(ref);
  const auto foreign = store->get<std::string>({7, 1});

  REQUIRE_FALSE(released);
  CHECK(released.error().code == ErrorCode::not_found);
  CHECK(released.error().message == "object 00000000000000a1-0000000000000001 was released");
  CHECK(foreign.error().message == "object 0000000000000007-0000000000000001 was never put into this store");
  CHECK(store->release(ref).error().code == ErrorCode::not_found);
}

TEST_CASE("another type than the one put is refused", "[objects][error]") {
  const auto store = make_local_object_store();
  const ObjectRef ref = store->put(text("text"), {ScopeKind::step, 4});

  const auto wrong = store->get<std::vector<int>>(ref);

  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code == ErrorCode::bad_schema);
  CHECK_THAT(wrong.error().message, Catch::Contains("of step 4 holds another type"));
}

TEST_CASE("release_scope ends exactly the objects of that scope", "[objects]") {
  const auto store = make_local_object_store();
  const ObjectRef first = store->put(text("a"), {ScopeKind::step, 1}, 10);
  const ObjectRef second = store->put(text("b"), {ScopeKind::step, 1}, 20);
  const ObjectRef next_step = store->put(text("c"), {ScopeKind::step, 2}, 30);
  const ObjectRef version = store->put(text("d"), {ScopeKind::version, 1}, 40);

  CHECK(store->release_scope({ScopeKind::step, 1}) == 2);

  CHECK_FALSE(store->get<std::string>(first));
  CHECK_FALSE(store->get<std::string>(second));
  CHECK(store->get<std::string>(next_step));
  CHECK(store->get<std::string>(version));
  CHECK(store->counters().num_objects == 2);
  CHECK(store->counters().size_bytes == 70);
  CHECK(store->counters().num_released == 2);
  CHECK(store->release_scope({ScopeKind::step, 1}) == 0);
}

TEST_CASE("a reader keeps the bytes of a released object", "[objects]") {
  const auto store = make_local_object_store();
  const ObjectRef ref = store->put(text("still here"), {ScopeKind::version, 3});
  const auto reader = store->get<std::string>(ref);

  store->release_scope({ScopeKind::version, 3});

  CHECK(**reader == "still here");
}

TEST_CASE("references of many threads are distinct", "[objects]") {
  const auto store = make_local_object_store();
  std::vector<std::vector<ObjectRef>> refs(4);
  std::vector<std::thread> threads;
  for (auto& mine : refs) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        mine.push_back(store->put(text("x"), {ScopeKind::manual, i}));
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }

  std::set<ObjectRef> distinct;
  for (const auto& mine : refs) {
    distinct.insert(mine.begin(), mine.end());
  }
  CHECK(distinct.size() == 800);
}

}  // namespace
}  // namespace memopd

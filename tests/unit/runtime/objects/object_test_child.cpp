// A process that shares the objects of its node; object tests talk to it through its stdin and stdout.
//
//   object_test_child SOCKET STORE_ID        commands follow, one a line; "ready" comes first
//   object_test_child SOCKET STORE_ID UID    becomes that user, asks for an object, prints what it hears and ends
//   put_weights SEED          -> "ref HIGH LOW"; keeps nothing
//   put_blob BYTES SEED       -> "ref HIGH LOW"
//   map HIGH LOW              -> "mapped"; keeps the mapping
//   sum                       -> "sum N" over the mapping
#include <unistd.h>

#include <cstdint>
#include <iostream>
#include <string>

#include "runtime/objects/shared_object_store.hpp"
#include "tests/unit/runtime/objects/test_values.hpp"

namespace memopd {
namespace {

void print(const ObjectRef& ref) { std::cout << "ref " << ref.high << " " << ref.low << std::endl; }

void serve(ObjectStore& store) {
  Blob mapped;
  std::string verb;
  while (std::cin >> verb) {
    if (verb == "put_weights") {
      std::uint64_t seed = 0;
      std::cin >> seed;
      print(store.put(std::make_shared<const WeightSet>(testing::weights(seed)), {ScopeKind::version, 1}));
    } else if (verb == "put_blob") {
      std::size_t size = 0;
      std::uint64_t seed = 0;
      std::cin >> size >> seed;
      print(store.put_blob(testing::pattern(size, seed), {ScopeKind::manual, 0}));
    } else if (verb == "map") {
      ObjectRef ref;
      std::cin >> ref.high >> ref.low;
      auto blob = store.get_blob(ref);
      mapped = blob ? *blob : Blob{};
      std::cout << (blob ? "mapped" : blob.error().message) << std::endl;
    } else {
      std::cout << "sum " << testing::sum(mapped.bytes) << std::endl;
    }
  }
}

}  // namespace
}  // namespace memopd

int main(int argc, char** argv) {
  if (argc == 4 && ::setuid(static_cast<uid_t>(std::stoul(argv[3]))) != 0) {
    return 2;
  }
  if (argc < 3) {
    return 2;
  }
  auto store = memopd::connect_object_store({argv[1], std::stoull(argv[2])});
  if (!store) {
    std::cout << "failed " << store.error().message << std::endl;
    return 1;
  }
  if (argc == 4) {
    memopd::ObjectRef nobody{1, 1};
    std::cout << "answer " << (*store)->get_blob(nobody).error().message << std::endl;
    return 0;
  }
  std::cout << "ready" << std::endl;
  memopd::serve(**store);
  return 0;
}

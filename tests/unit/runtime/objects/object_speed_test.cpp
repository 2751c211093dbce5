// Speed of blobs and weights on this node: `test_runtime_objects "[.bench]"`. Asserts nothing about time.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>

#include "tests/unit/runtime/objects/test_objects.hpp"
#include "tests/unit/runtime/objects/test_values.hpp"

namespace memopd {
namespace {

using Clock = std::chrono::steady_clock;

/// Best of 20.
void report(const char* what, std::size_t size, const std::function<void()>& prepare,
            const std::function<void()>& run) {
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    prepare();
    const auto begin = Clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::printf("%-44s %8zu KiB %10.1f us %8.2f GB/s\n", what, size >> 10, best * 1e6,
              static_cast<double>(size) / best / 1e9);
}

TEST_CASE("objects come and go at memory speed", "[.bench]") {
  const testing::ObjectNode node;
  const auto writer = node.connect(1);
  const auto reader = node.connect(2);
  for (const std::size_t size : {std::size_t{1} << 20, std::size_t{64} << 20}) {
    const auto bytes = testing::pattern(size, 1);
    auto warm = bytes;
    ObjectRef ref;
    const auto release = [&] { static_cast<void>(writer->release_scope({})); };
    const auto nothing = [] {};
    report("memcpy, warm", size, nothing, [&] { std::memcpy(warm.data(), bytes.data(), size); });
    report("put_blob", size, release, [&] { ref = writer->put_blob(bytes, {}); });
    report("allocate_blob, fill, seal_and_put", size, release, [&] {
      const auto blob = writer->allocate_blob(size);
      std::memcpy((*blob)->bytes().data(), bytes.data(), size);
      ref = (*blob)->seal_and_put({});
    });
    report("get_blob, mapped", size, nothing, [&] { REQUIRE(reader->get_blob(ref)); });
    std::uint64_t total = 0;
    report("get_blob and read every byte", size, nothing, [&] {
      const auto blob = reader->get_blob(ref);
      std::memcpy(warm.data(), blob->bytes.data(), size);
      total += static_cast<std::uint64_t>(warm.back());
    });
    WeightSet set{1, 1, {{"w", DType::uint8, {static_cast<std::int64_t>(size)}, bytes}}};
    const auto weights = std::make_shared<const WeightSet>(std::move(set));
    report("put<WeightSet>", size, release, [&] { ref = writer->put(weights, {}); });
    report("get<WeightSet> elsewhere", size, nothing, [&] { REQUIRE(reader->get<WeightSet>(ref)); });
  }
}

}  // namespace
}  // namespace memopd

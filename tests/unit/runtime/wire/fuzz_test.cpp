// Damaged frames: an error or a message, never more memory than the input accounts for.
#include <catch2/catch.hpp>

#include "runtime/wire/data_codec.hpp"
#include "runtime/wire/frame.hpp"
#include "tests/support/fuzz.hpp"
#include "tests/unit/runtime/wire/allocation_watch.hpp"

namespace memopd::testing {
namespace {

struct Everything {
  Trajectory trajectory;
  std::vector<double> numbers;
  std::map<std::string, std::string> texts;
  std::optional<PackedBatch> pack;
  WeightSet weights;
};
MEMOPD_MESSAGE(Everything, 1, trajectory, numbers, texts, pack, weights)

Everything example() {
  Everything all;
  all.trajectory.id = {"train", 3, 1, 0};
  all.trajectory.invocations.resize(2);
  all.trajectory.invocations[0].prompt_token_ids = {1, 2, 300};
  all.trajectory.invocations[0].rollout_log_probs = {-0.5F};
  all.numbers = {1.0, -2.5};
  all.texts = {{"a", "b"}, {"c", std::string(40, 'x')}};
  all.pack.emplace();
  all.pack->input_ids = {5, 6, 7};
  all.weights.tensors.push_back({"w", DType::float32, {2, 2}, std::vector<std::byte>(16)});
  return all;
}

TEST_CASE("damaged frames, for a minute", "[.fuzz]") {
  const auto frame = *encode_frame(example());
  const std::string valid(reinterpret_cast<const char*>(frame.data()), frame.size());
  const auto count = fuzz("frames", [&](SplitMix& random) {
    const std::string bytes = damage(valid, random);
    reset_largest_allocation();
    (void)decode_frame<Everything>({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
    if (largest_allocation_bytes() > 64 * bytes.size() + 4096) {
      FAIL("an allocation of " << largest_allocation_bytes() << " bytes for a frame of " << bytes.size());
    }
  });
  CHECK(count > 1000);
}

}  // namespace
}  // namespace memopd::testing

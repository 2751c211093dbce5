#include "runtime/alignpack/dense_mask.hpp"

#include <catch2/catch.hpp>

#include "runtime/alignpack/align_pack.hpp"
#include "tests/unit/runtime/alignpack/random_trajectories.hpp"

namespace memopd {

using testing::invocation;
using testing::trajectory;

TEST_CASE("dense_mask shows a shared prefix, two branches and nothing between them", "[alignpack][AP-3]") {
  const Trajectory example = trajectory(0, {invocation({1, 2}, {3}), invocation({1, 4}, {5})});

  const auto packs = align_pack({&example, 1}, {});

  REQUIRE(packs);
  CHECK(dense_mask(packs->front()) == std::vector<std::uint8_t>{1, 0, 0, 0, 0,  //
                                                                1, 1, 0, 0, 0,  //
                                                                1, 1, 1, 0, 0,  //
                                                                1, 0, 0, 1, 0,  //
                                                                1, 0, 0, 1, 1});
}

TEST_CASE("dense_mask without sharing is block-diagonal and causal: earlier tokens of the own invocation",
          "[alignpack][AP-3][pain:T08]") {
  const auto trajectories = testing::random_trajectories(5, 3, {.min_calls = 3});

  const auto packs = align_pack(trajectories, {.max_tokens = 100000, .share_prefixes = false});

  REQUIRE(packs);
  std::vector<std::size_t> owner;
  for (const Invocation* call : testing::invocations_of(trajectories)) {
    owner.insert(owner.end(), testing::sequence_of(*call).size(), owner.empty() ? 0 : owner.back() + 1);
  }
  const auto mask = dense_mask(packs->front());
  REQUIRE(mask.size() == owner.size() * owner.size());
  for (std::size_t row = 0; row < owner.size(); ++row) {
    for (std::size_t other = 0; other < owner.size(); ++other) {
      CHECK((mask[row * owner.size() + other] != 0) == (owner[row] == owner[other] && other <= row));
    }
  }
}

}  // namespace memopd

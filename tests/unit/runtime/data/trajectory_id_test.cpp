#include "runtime/data/trajectory_id.hpp"

#include <catch2/catch.hpp>
#include <set>

using namespace memopd;

TEST_CASE("a trajectory id prints and parses as split.step.task_index.sample", "[data]") {
  const TrajectoryId id{"train", 12, 3, 0};
  CHECK(to_string(id) == "train.12.3.0");
  REQUIRE(parse_trajectory_id("train.12.3.0"));
  CHECK(*parse_trajectory_id("train.12.3.0") == id);
  CHECK(*parse_trajectory_id("val.2147483647.0.1") == TrajectoryId{"val", 2147483647, 0, 1});
}

TEST_CASE("anything else is no trajectory id", "[data][error]") {
  for (const char* text : {"", "train", "train.1.2", ".1.2.3", "train.1.2.3.4", "train.1.2.x", "train.1.2.",
                           "train.-1.2.3", "train.1.2.2147483648", "train.1.2.3 ", "train. 1.2.3", "train.1.2.+3"}) {
    INFO(text);
    const auto parsed = parse_trajectory_id(text);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == ErrorCode::parse_error);
    CHECK(parsed.error().message.find("expected split.step.task_index.sample") != std::string::npos);
  }
}

TEST_CASE("ids are ordered by split, then step, then task, then sample", "[data]") {
  CHECK(TrajectoryId{"train", 9, 9, 9} < TrajectoryId{"val", 0, 0, 0});
  CHECK(TrajectoryId{"train", 2, 9, 9} < TrajectoryId{"train", 10, 0, 0});
  CHECK(TrajectoryId{"train", 2, 1, 9} < TrajectoryId{"train", 2, 2, 0});
  CHECK(TrajectoryId{"train", 2, 1, 0} < TrajectoryId{"train", 2, 1, 1});
}

TEST_CASE("a seed differs by the run and by each field of the id", "[data][RL-7]") {
  const std::set<std::uint64_t> seeds = {
      trajectory_seed(1, {"train", 0, 0, 0}), trajectory_seed(2, {"train", 0, 0, 0}),
      trajectory_seed(1, {"val", 0, 0, 0}),   trajectory_seed(1, {"train", 1, 0, 0}),
      trajectory_seed(1, {"train", 0, 1, 0}), trajectory_seed(1, {"train", 0, 0, 1})};
  CHECK(seeds.size() == 6);
  CHECK(trajectory_seed(1, {"train", 0, 0, 0}) == trajectory_seed(1, {"train", 0, 0, 0}));
}

TEST_CASE("a seed is a fixed function of names: it is the same in every build", "[data][RL-6]") {
  // splitmix64 over FNV-1a of the split and the three numbers, computed by a separate script (tests/golden/seed_reference.py).
  CHECK(trajectory_seed(42, {"train", 12, 3, 0}) == 2053031974826651024ULL);
  CHECK(invocation_seed(2053031974826651024ULL, 2) == 6368319899003065507ULL);
}

TEST_CASE("each invocation of a trajectory has a seed of its own", "[data][RL-7]") {
  const std::uint64_t seed = trajectory_seed(1, {"train", 0, 0, 0});
  CHECK(invocation_seed(seed, 0) != invocation_seed(seed, 1));
  CHECK(invocation_seed(seed, 0) != seed);
}

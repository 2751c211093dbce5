#include "runtime/data/trajectory.hpp"

#include <catch2/catch.hpp>
#include <set>

#include "runtime/data/tensor.hpp"

using namespace memopd;

TEST_CASE("the four ways a model can end a trajectory are trained on, failures around it are not", "[data][RL-2]") {
  using enum TrajectoryStatus;
  for (const TrajectoryStatus status : {completed, invalid_action, turn_limit, context_limit}) {
    CHECK(is_trained(status));
  }
  for (const TrajectoryStatus status : {env_failed, timeout, aborted, stale, teacher_unavailable}) {
    CHECK_FALSE(is_trained(status));
  }
}

TEST_CASE("every status has a name of its own", "[data]") {
  std::set<std::string_view> names;
  for (int status = 0; status <= static_cast<int>(TrajectoryStatus::teacher_unavailable); ++status) {
    names.insert(to_string(static_cast<TrajectoryStatus>(status)));
  }
  CHECK(names.size() == 9);
  CHECK(names.count("unknown") == 0);
}

TEST_CASE("response tokens are counted over all invocations", "[data]") {
  Trajectory trajectory;
  CHECK(num_response_tokens(trajectory) == 0);
  trajectory.invocations.resize(3);
  trajectory.invocations[0].response_token_ids = {4, 5};
  trajectory.invocations[2].response_token_ids = {6};
  CHECK(num_response_tokens(trajectory) == 3);
}

TEST_CASE("element sizes of tensors are those of their types", "[data]") {
  CHECK(size_bytes(DType::float32) == 4);
  CHECK(size_bytes(DType::float64) == 8);
  CHECK(size_bytes(DType::bfloat16) == 2);
  CHECK(size_bytes(DType::float16) == 2);
  CHECK(size_bytes(DType::int32) == 4);
  CHECK(size_bytes(DType::int64) == 8);
  CHECK(size_bytes(DType::uint8) == 1);
  CHECK(to_string(DType::bfloat16) == "bfloat16");
}

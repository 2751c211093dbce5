#include "runtime/wire/data_codec.hpp"

#include <catch2/catch.hpp>
#include <limits>

namespace memopd {
namespace {

Invocation an_invocation() {
  Invocation invocation;
  invocation.trajectory_id = {"train", 12, 3, 1};
  invocation.attempt = 2;
  invocation.invocation_index = 4;
  invocation.prompt_token_ids = {5, 6, 7};
  invocation.spans = {{0, 2, SpanKind::question}, {2, 3, SpanKind::kept}};
  invocation.response_token_ids = {8, 9};
  invocation.rollout_log_probs = {-0.5F, -std::numeric_limits<float>::infinity()};
  invocation.log_kept_mass = {-0.125F, 0.0F};
  invocation.policy_versions = {{7, 1}, {8, 1}};
  invocation.sampling = {0.5, 0.9, 40, 0.01, 64, 0xFFFFFFFFFFFFFFFFULL};
  invocation.finish_reason = FinishReason::length;
  invocation.reward = 0.25;
  invocation.digest = {1, 0xFFFFFFFFFFFFFFFFULL};
  invocation.timings = {1, 2, 3};
  return invocation;
}

/// Two values are equal if their encodings are: no field of them can differ then.
template <class T>
void check_round_trip(const T& value) {
  const auto bytes = encode(value);
  const auto decoded = decode<T>(bytes);
  REQUIRE(decoded);
  CHECK(encode(*decoded) == bytes);
}

TEST_CASE("an invocation crosses the wire with every field", "[wire][AP-1]") {
  const Invocation sent = an_invocation();

  const auto received = decode<Invocation>(encode(sent));

  REQUIRE(received);
  CHECK(received->trajectory_id == sent.trajectory_id);
  CHECK(received->attempt == 2);
  CHECK(received->invocation_index == 4);
  CHECK(received->prompt_token_ids == sent.prompt_token_ids);
  CHECK(received->spans == sent.spans);
  CHECK(received->response_token_ids == sent.response_token_ids);
  CHECK(received->rollout_log_probs == sent.rollout_log_probs);
  CHECK(received->log_kept_mass == sent.log_kept_mass);
  CHECK(received->policy_versions == sent.policy_versions);
  CHECK(received->sampling == sent.sampling);
  CHECK(received->finish_reason == FinishReason::length);
  CHECK(received->reward == 0.25);
  CHECK(received->digest == sent.digest);
  CHECK(received->timings.decode_ms == 3);
}

TEST_CASE("the types of a step round-trip", "[wire]") {
  Trajectory trajectory;
  trajectory.id = {"train", 12, 3, 1};
  trajectory.task_id = "t";
  trajectory.invocations = {an_invocation()};
  trajectory.status = TrajectoryStatus::teacher_unavailable;
  trajectory.rewards = {{"final", 1.0}};
  StepBatch batch{1, 12, 7, {trajectory}, {}};
  batch.scores.push_back({trajectory.id, 2, 4, {3, 4}, 0, 2, 99, {1, 2}});
  check_round_trip(batch);
  check_round_trip(
      WeightSet{1, 2, {{"lm_head.weight", DType::bfloat16, {1, 2}, std::vector<std::byte>(4, std::byte{7})}}});
  check_round_trip(TeacherScores{{"", DType::float32, {1, 1}, std::vector<std::byte>(4)}, {1, 0}, 5, {{7, 9}}});
  check_round_trip(
      PackedBatch{{1, 2}, {0, 1}, {0, 2}, {0, 1}, {0, 2}, {0}, {2}, {{trajectory.id, 0, 0, 0, 1, {9, 9}}}});
}

TEST_CASE("the types of an environment round-trip", "[wire]") {
  check_round_trip(Task{"id", "hotpot", "train", "Who?", {{"a", "b"}, {}}, "{}", 6});
  check_round_trip(Task{"id", "hotpot", "train", "Who?", {}, "", std::nullopt});
  check_round_trip(Action{ActionKind::answer, "a; b", "<answer>a; b</answer>"});
  check_round_trip(Turn{"text", 0.5, true, ToolCall{"retrieve", "q"}, {{"em", 1}}});
  check_round_trip(ToolResult{{{"d1", "title", "text", 3.5}}});
  check_round_trip(Error{ErrorCode::overloaded, "full"});
}

TEST_CASE("float vectors and tensor bytes travel as bin, one header for all elements", "[wire]") {
  Invocation with_log_probs;
  const std::size_t empty = encode(with_log_probs).size();
  with_log_probs.rollout_log_probs.assign(50, 0.1F);

  // bin 8 has a header of two bytes, as the empty bin had.
  CHECK(encode(with_log_probs).size() == empty + 200);
}

TEST_CASE("a status that this build does not know is refused", "[wire][error]") {
  Trajectory trajectory;
  trajectory.status = static_cast<TrajectoryStatus>(200);

  const auto decoded = decode<Trajectory>(encode(trajectory));

  REQUIRE_FALSE(decoded);
  CHECK(decoded.error().message == "status: 200 is out of range, allowed 0 to 8");
}

}  // namespace
}  // namespace memopd

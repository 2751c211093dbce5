#include "actors/step_assembler.hpp"

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

using namespace memopd;

namespace {

Invocation invocation(std::int32_t task, std::int32_t index, std::vector<std::int32_t> prompt,
                      std::vector<std::int32_t> response, std::int32_t attempt = 0) {
  Invocation made;
  made.trajectory_id = {"train", 0, task, 0};
  made.attempt = attempt;
  made.invocation_index = index;
  made.prompt_token_ids = std::move(prompt);
  made.response_token_ids = std::move(response);
  return made;
}

EmitTrajectory record(std::int32_t task, std::int32_t num_invocations, std::int32_t attempt = 0) {
  EmitTrajectory made;
  made.trajectory.id = {"train", 0, task, 0};
  made.trajectory.attempt = attempt;
  made.num_invocations = num_invocations;
  return made;
}

TeacherScores scores_of(std::size_t num_rows) {
  TeacherScores scores;
  scores.row_valid.assign(num_rows, 1);
  return scores;
}

CloseStep close_of(std::vector<std::int32_t> tasks) {
  CloseStep request;
  for (const std::int32_t task : tasks) {
    request.trajectory_ids.push_back({"train", 0, task, 0});
  }
  return request;
}

}  // namespace

TEST_CASE("an invocation that comes twice counts once", "[step_assembler][RL-2]") {
  StepAssembler assembler({}, false);

  const auto first = assembler.add(invocation(0, 0, {1}, {2}));
  const auto second = assembler.add(invocation(0, 0, {1}, {2}));
  REQUIRE(assembler.add(record(0, 1)));

  CHECK(first.value());
  CHECK_FALSE(second.value());
  CHECK(assembler.close(close_of({0})).trajectories.front().invocations.size() == 1);
}

TEST_CASE("the same key with other ids is an error that names it", "[step_assembler][RL-2][error]") {
  StepAssembler assembler({}, false);
  REQUIRE(assembler.add(invocation(0, 0, {1}, {2})));

  const auto again = assembler.add(invocation(0, 0, {1}, {3}));

  REQUIRE_FALSE(again);
  CHECK(again.error().code == ErrorCode::already_exists);
  CHECK(again.error().message == "trajectory train.0.0.0, attempt 0, invocation 0: came again with other ids");
}

TEST_CASE("the latest attempt with a record counts and earlier ones are superseded", "[step_assembler][RL-2]") {
  StepAssembler assembler({}, false);
  REQUIRE(assembler.add(invocation(0, 0, {1}, {2}, 0)));
  REQUIRE(assembler.add(record(0, 1, 0)));
  REQUIRE(assembler.add(invocation(0, 0, {1}, {9}, 1)));
  REQUIRE(assembler.add(record(0, 1, 1)));

  const StepBatch batch = assembler.close(close_of({0}));

  CHECK(batch.trajectories.front().attempt == 1);
  CHECK(batch.trajectories.front().invocations.front().response_token_ids == std::vector<std::int32_t>{9});
  CHECK(assembler.num_superseded() == 1);
}

TEST_CASE("a step is complete only with every record, invocation and score", "[step_assembler]") {
  StepAssembler assembler({}, true);
  CHECK_FALSE(assembler.is_complete(close_of({0})));
  REQUIRE(assembler.add(record(0, 1)));
  CHECK_FALSE(assembler.is_complete(close_of({0})));
  REQUIRE(assembler.add(invocation(0, 0, {1}, {2, 3})));
  CHECK_FALSE(assembler.is_complete(close_of({0})));
  const auto pack = assembler.next_pack(false);
  REQUIRE(pack);
  REQUIRE(*pack);

  REQUIRE(assembler.scored((*pack)->number, {}, scores_of(2)));

  CHECK(assembler.is_complete(close_of({0})));
}

TEST_CASE("an invocation without response needs no score", "[step_assembler]") {
  StepAssembler assembler({}, true);
  REQUIRE(assembler.add(invocation(0, 0, {1}, {})));
  REQUIRE(assembler.add(record(0, 1)));

  CHECK(assembler.is_complete(close_of({0})));
  CHECK_FALSE(*assembler.next_pack(true));
}

TEST_CASE("a teacher pack keeps to its token budget and takes at least one invocation", "[step_assembler]") {
  PackConfig config;
  config.teacher_pack_tokens = 16;
  StepAssembler assembler(config, true);
  for (std::int32_t index = 0; index < 3; ++index) {
    REQUIRE(assembler.add(invocation(0, index, std::vector<std::int32_t>(7, index), {1})));
  }

  CHECK((*assembler.next_pack(false))->pack->invocations.size() == 2);
  CHECK((*assembler.next_pack(false))->pack->invocations.size() == 1);
}

TEST_CASE("flush \"step\" sends nothing before the step closes, \"invocation\" one at a time", "[step_assembler]") {
  PackConfig config;
  config.teacher_flush = "step";
  StepAssembler late(config, true);
  REQUIRE(late.add(invocation(0, 0, {1}, {2})));
  CHECK_FALSE(*late.next_pack(false));
  CHECK(*late.next_pack(true));

  config.teacher_flush = "invocation";
  StepAssembler single(config, true);
  REQUIRE(single.add(invocation(0, 0, {1}, {2})));
  REQUIRE(single.add(invocation(0, 1, {1}, {2})));
  CHECK((*single.next_pack(false))->pack->invocations.size() == 1);
}

TEST_CASE("scores with another number of rows are refused with the invocation named", "[step_assembler][error]") {
  StepAssembler assembler({}, true);
  REQUIRE(assembler.add(invocation(4, 0, {1}, {2, 3})));
  const auto pack = assembler.next_pack(false);

  const auto taken = assembler.scored((*pack)->number, {}, scores_of(3));

  REQUIRE_FALSE(taken);
  CHECK(taken.error().code == ErrorCode::row_count_mismatch);
  CHECK(taken.error().message.find("train.0.4.0, invocation 0: 3 rows for 2 response tokens") != std::string::npos);
}

TEST_CASE("closing a step leaves later steps as they are, and what comes for a closed one is late",
          "[step_assembler][RL-2]") {
  StepAssembler assembler({}, false);
  const auto of_step = [](std::int32_t step) {
    Invocation made = invocation(0, 0, {1}, {step});
    made.trajectory_id.step = step;
    EmitTrajectory whole = record(0, 1);
    whole.trajectory.id.step = step;
    return std::pair(made, whole);
  };
  const auto [first, first_record] = of_step(0);
  const auto [second, second_record] = of_step(1);
  REQUIRE(assembler.add(first));
  REQUIRE(assembler.add(first_record));
  REQUIRE(assembler.add(second));
  (void)assembler.close(close_of({0}));

  CHECK_FALSE(assembler.add(first).value());
  CHECK_FALSE(assembler.add(first_record).value());
  CHECK(assembler.num_late() == 2);
  REQUIRE(assembler.add(second_record));
  CloseStep next;
  next.step = 1;
  next.trajectory_ids = {second.trajectory_id};
  const StepBatch batch = assembler.close(next);
  REQUIRE(batch.trajectories.size() == 1);
  CHECK(batch.trajectories.front().invocations.front().response_token_ids == std::vector<std::int32_t>{1});
  CHECK(assembler.num_superseded() == 0);
}

TEST_CASE("the scores of a pack are needed until the latest step among its calls is trained", "[step_assembler]") {
  StepAssembler assembler({}, true);
  Invocation later = invocation(0, 0, {1}, {2});
  later.trajectory_id.step = 3;
  REQUIRE(assembler.add(invocation(0, 0, {1}, {2})));
  REQUIRE(assembler.add(later));

  const auto pack = assembler.next_pack(false);

  REQUIRE(pack);
  CHECK((*pack)->pack->invocations.size() == 2);
  CHECK((*pack)->step == 3);
}

TEST_CASE("in a control a trajectory goes to the teacher once it is whole", "[step_assembler]") {
  std::vector<std::size_t> packed;
  StepAssembler assembler({}, true, [&](const Trajectory& trajectory) {
    packed.push_back(trajectory.invocations.size());
    PackedBatch pack;
    pack.response_index = {0, 0};
    pack.invocations = {{trajectory.id, 0, 0, 0, 1, {}}, {trajectory.id, 0, 1, 1, 2, {}}};
    return Expected<std::vector<PackedBatch>>(std::vector<PackedBatch>{pack});
  });
  REQUIRE(assembler.add(invocation(0, 0, {1}, {2})));
  CHECK_FALSE(*assembler.next_pack(false));
  REQUIRE(assembler.add(record(0, 2)));
  CHECK_FALSE(*assembler.next_pack(false));
  REQUIRE(assembler.add(invocation(0, 1, {1, 2}, {3})));

  const auto pack = assembler.next_pack(false);

  REQUIRE(*pack);
  CHECK(packed == std::vector<std::size_t>{2});
  CHECK_FALSE(*assembler.next_pack(false));
  CHECK_FALSE(assembler.is_complete(close_of({0})));
  REQUIRE(assembler.scored((*pack)->number, {}, scores_of(2)));
  CHECK(assembler.is_complete(close_of({0})));
}

TEST_CASE("the digest of what the teacher fed reaches the reference to its scores", "[step_assembler][AP-6]") {
  StepAssembler assembler({}, true);
  REQUIRE(assembler.add(invocation(0, 0, {1}, {2})));
  REQUIRE(assembler.add(record(0, 1)));
  const auto pack = assembler.next_pack(false);
  REQUIRE(*pack);
  TeacherScores scores = scores_of(1);
  scores.digests = {{7, 9}};

  REQUIRE(assembler.scored((*pack)->number, {}, scores));

  CHECK(assembler.close(close_of({0})).scores.front().digest == Digest{7, 9});
}

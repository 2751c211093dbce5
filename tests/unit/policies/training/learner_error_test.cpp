// What a learner does with broken input: named errors, excluded rows, skipped updates.
#include "policies/training/learner.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "policies/model/safetensors.hpp"
#include "runtime/collective/collective.hpp"
#include "tests/unit/policies/training/training_fixtures.hpp"

namespace memopd {
namespace {

using namespace testing;

Error error_of(const LearnerSetup& setup, const ScoredStep& step) {
  const auto learner = make_learner(setup);
  const WeightSet before = learner->weights();
  const auto report = learner->step(step.batch, step.lookup());
  REQUIRE_FALSE(report);
  CHECK(same_bits(before, learner->weights()));
  return report.error();
}

}  // namespace

TEST_CASE("a teacher row of NaN is excluded and counted, the rest is trained on", "[learner][error]") {
  World world;
  TeacherScores& scores = world.step.edit(0, 1);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::memcpy(scores.hidden.bytes.data(), &nan, sizeof nan);

  const auto learner = make_learner(world.setup());
  const StepReport report = run_step(*learner, world.step);

  CHECK(report.metrics.at("opd/invalid_teacher_rows") == 1);
  CHECK(report.num_optimizer_steps == 1);
  CHECK(std::isfinite(report.metrics.at("train/loss")));
}

TEST_CASE("a reward that is not finite excludes its trajectory's rows", "[learner][error]") {
  World world;
  world.step.batch.trajectories[1].rewards["final"] = std::numeric_limits<double>::quiet_NaN();
  const StepReport report = run_step(*make_learner(world.setup()), world.step);
  CHECK(report.metrics.at("train/excluded_rows") == 3);
  CHECK(report.num_optimizer_steps == 1);
}

TEST_CASE("teacher rows that do not fit are named errors and nothing is updated", "[learner][error]") {
  World world;
  SECTION("another number of rows in the reference") {
    world.step.batch.scores[1].row_end += 1;
    CHECK(error_of(world.setup(), world.step).code == ErrorCode::row_count_mismatch);
  }
  SECTION("fewer rows in the object") {
    TeacherScores& scores = world.step.edit(0, 1);
    scores.hidden.shape[0] = 1;
    scores.hidden.bytes.resize(16 * sizeof(double));
    scores.row_valid.resize(1);
    const Error error = error_of(world.setup(), world.step);
    CHECK(error.code == ErrorCode::row_count_mismatch);
    CHECK(error.message.find("trajectory train.0.0.0, invocation 1") != std::string::npos);
  }
  SECTION("another width") {
    world.step.edit(0, 1).hidden.shape = {1, 32};
    CHECK(error_of(world.setup(), world.step).code == ErrorCode::shape_mismatch);
  }
  SECTION("another head") {
    world.step.batch.scores[0].head_fingerprint += 1;
    CHECK(error_of(world.setup(), world.step).code == ErrorCode::invalid_argument);
  }
  SECTION("another version of the policy") {
    world.step.batch.policy_version = 3;
    CHECK(error_of(world.setup(), world.step).message ==
          "step 0 was collected for policy_version 3, the learner is at 0");
  }
}

TEST_CASE("an error of one rank ends the step on every rank", "[learner][error]") {
  World world;
  world.step.edit(0, 1).hidden.shape = {1, 32};
  int num_named = 0;
  for (const RankResult& rank : step_on_ranks(world.setup(), 2, world.step)) {
    REQUIRE_FALSE(rank.report);
    num_named += rank.report.error().code == ErrorCode::shape_mismatch ? 1 : 0;
  }
  CHECK(num_named == 1);
}

TEST_CASE("a gradient that is not finite skips the update, counts it and keeps the version", "[learner][error]") {
  World world;
  auto tensors = read_safetensors(world.student / "model.safetensors").value();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (HostTensor& tensor : tensors) {
    if (tensor.name == "model.norm.weight") {
      std::memcpy(tensor.bytes.data(), &nan, sizeof nan);
    }
  }
  REQUIRE(write_safetensors(world.student / "model.safetensors", tensors));
  LearnerSetup setup = world.setup();
  setup.learner.mini_batch_trajectories = 1;
  const auto learner = make_learner(setup);

  const StepReport first = run_step(*learner, world.step);
  const StepReport second = run_step(*learner, world.step);

  CHECK(first.num_optimizer_steps == 0);
  CHECK(first.skipped_updates == 3);
  CHECK(second.max_skipped_in_a_row == 6);
  CHECK(learner->policy_version() == 0);
}

TEST_CASE("settings that contradict one another are refused by name", "[learner][error]") {
  const World world;
  const auto message = [&](const LearnerSetup& setup) {
    const auto learner = Learner::create(setup, make_local_collective(1)[0]);
    return learner ? std::string() : learner.error().message;
  };
  LearnerSetup setup = world.setup();
  setup.ppo.coef = 0;
  setup.opd.coef = 0;
  CHECK(message(setup) == "ppo.coef and opd.coef are both 0: nothing to train on");
  setup = world.setup();
  setup.teacher_folder.clear();
  CHECK(message(setup).find("without a teacher") != std::string::npos);
  setup = world.setup();
  setup.scored_vocab = kVocab + 1;
  CHECK(message(setup) == "scored_vocab 24 exceeds the smaller vocabulary 23 of student and teacher");
  setup = world.setup();
  setup.learner.num_ranks = 2;
  CHECK(message(setup) == "learner.num_ranks is 2, the group has 1 ranks");
}

}  // namespace memopd

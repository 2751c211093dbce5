#include "policies/training/digest_check.hpp"

#include <catch2/catch.hpp>

#include "policies/model/state_digest.hpp"
#include "policies/training/learner.hpp"
#include "runtime/alignpack/history_pack.hpp"
#include "tests/unit/policies/training/training_fixtures.hpp"

namespace memopd {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): a test file

constexpr Digest kA{1, 0xAB};
constexpr Digest kB{0, 2};
constexpr const char* kTextA = "000000000000000100000000000000ab";
constexpr const char* kTextB = "00000000000000000000000000000002";

/// Digests of every invocation as the engine and an aligned teacher would find them.
void set_digests(ScoredStep& step) {
  std::size_t next = 0;
  for (Trajectory& trajectory : step.batch.trajectories) {
    for (Invocation& invocation : trajectory.invocations) {
      const Invocation* const pointer = &invocation;
      const auto packs = align_pack(std::span<const Invocation* const>(&pointer, 1), {});
      invocation.digest = pack_digests(packs->front()).at(0);
      step.batch.scores.at(next++).digest = invocation.digest;
    }
  }
}

/// Replaces the teacher's digests by those of another layout of its states.
void set_teacher_state(ScoredStep& step, HistoryState state) {
  std::size_t next = 0;
  for (const Trajectory& trajectory : step.batch.trajectories) {
    const Trajectory* const pointer = &trajectory;
    const auto packs = pack_histories({&pointer, 1}, state, {}, [](const Invocation&) { return 0; });
    for (const Digest& digest : pack_digests(packs->front())) {
      step.batch.scores.at(next++).digest = digest;
    }
  }
}

}  // namespace

TEST_CASE("a disagreement says who was fed what", "[digest][AP-6]") {
  CHECK(disagreement({kA, kA, kA}).empty());
  CHECK(disagreement({{}, {}, kA}).empty());
  CHECK(disagreement({kA, kA, kB}) == std::string("engine and teacher fed ") + kTextA + ", learner fed " + kTextB);
  CHECK(disagreement({kB, kA, kB}) == std::string("engine and learner fed ") + kTextB + ", teacher fed " + kTextA);
  CHECK(disagreement({kB, {}, kA}) == std::string("engine fed ") + kTextB + ", learner fed " + kTextA);
}

TEST_CASE("digests that were not computed are not compared", "[digest][AP-6]") {
  CHECK_FALSE(is_comparable({kA, kA, {}}));
  CHECK_FALSE(is_comparable({{}, {}, kA}));
  CHECK(is_comparable({kA, {}, kA}));
  CHECK(is_comparable({{}, kA, kB}));
}

TEST_CASE("the learner finds every invocation as engine and teacher were fed it, however it packs",
          "[learner][digest][AP-6]") {
  World world;
  set_digests(world.step);
  LearnerSetup setup = world.setup();
  for (const bool share_prefixes : {true, false}) {
    setup.pack.share_prefixes = share_prefixes;
    setup.pack.max_tokens = share_prefixes ? 4096 : 32;
    const StepReport report = run_step(*make_learner(setup), world.step);
    CHECK(report.metrics.at("align/checked") == 8);
    CHECK(report.metrics.at("align/mismatch") == 0);
  }
}

TEST_CASE("an invocation that was fed differently ends an aligned step, named, with nothing updated",
          "[learner][digest][AP-6][error]") {
  World world;
  set_digests(world.step);
  world.step.batch.trajectories[2].invocations[1].digest[0] ^= 1;
  const auto learner = make_learner(world.setup());
  const WeightSet before = learner->weights();

  const auto report = learner->step(world.step.batch, world.step.lookup());

  REQUIRE_FALSE(report);
  CHECK(report.error().code == ErrorCode::digest_mismatch);
  CHECK(report.error().message.find("trajectory train.0.2.0, invocation 1: engine fed ") == 0);
  CHECK(report.error().message.find("teacher and learner fed ") != std::string::npos);
  CHECK(report.error().message.find("1 of 8 invocations differ") != std::string::npos);
  CHECK(same_bits(before, learner->weights()));
}

TEST_CASE("a mismatch on one rank ends the step on every rank", "[learner][digest][AP-6][error]") {
  World world;
  set_digests(world.step);
  world.step.batch.scores[0].digest[1] ^= 1;
  int num_named = 0;
  for (const RankResult& rank : step_on_ranks(world.setup(), 2, world.step)) {
    REQUIRE_FALSE(rank.report);
    num_named += rank.report.error().code == ErrorCode::digest_mismatch ? 1 : 0;
  }
  CHECK(num_named == 1);
}

TEST_CASE("the controls only count: persistent histories differ from call 2 on, the memory mask from call 1 on",
          "[learner][digest][AP-6]") {
  World world;  // trajectories of 3, 1 and 4 calls, kept(a) = a
  set_digests(world.step);
  LearnerSetup setup = world.setup();
  SECTION("the teacher's state") {
    setup.opd.state = "persistent_history";
    set_teacher_state(world.step, HistoryState::persistent_history);
    CHECK(run_step(*make_learner(setup), world.step).metrics.at("align/mismatch") == 1 + 0 + 2);
    setup.opd.state = "memory_mask";
    set_teacher_state(world.step, HistoryState::memory_mask);
    CHECK(run_step(*make_learner(setup), world.step).metrics.at("align/mismatch") == 2 + 0 + 3);
  }
  SECTION("the student's state") {
    setup.learner.state = "persistent_history";
    CHECK(run_step(*make_learner(setup), world.step).metrics.at("align/mismatch") == 1 + 0 + 2);
  }
}

}  // namespace memopd

// What the learner does with trajectories that older weights sampled.
#include "policies/training/learner.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "policies/training/ppo.hpp"
#include "tests/unit/policies/training/training_fixtures.hpp"

namespace memopd {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): a test file

/// PPO alone, without whitening: at the first optimizer step values are 0 and ratios 1, so a token's loss is -reward.
LearnerSetup ppo_setup(const World& world) {
  LearnerSetup setup = world.setup();
  setup.opd.coef = 0;
  setup.ppo.whiten_advantages = false;
  return setup;
}

}  // namespace

TEST_CASE("a stale trajectory is dropped and counted, and the largest lag of the others is a metric",
          "[learner][RL-3]") {
  World world;
  LearnerSetup setup = world.setup();
  setup.max_policy_lag = 1;
  const auto learner = make_learner(setup);
  for (std::int64_t version = 0; version < 2; ++version) {
    set_version(world.step, version);
    run_step(*learner, world.step);
  }
  set_version(world.step, 2);
  world.step.batch.trajectories[0].invocations[1].policy_versions = {{0, 1}, {2, 1}};
  world.step.batch.trajectories[2].invocations[0].policy_versions = {{1, 2}};

  const StepReport report = run_step(*learner, world.step);

  CHECK(report.num_trained == 2);
  REQUIRE(report.dropped.size() == 1);
  CHECK(report.dropped[0].id.task_index == 0);
  CHECK(report.dropped[0].reason == "stale");
  CHECK(report.metrics.at("train/dropped_stale") == 1);
  CHECK(report.metrics.at("train/max_lag") == 1);
}

TEST_CASE("the weight of a token is how much likelier the old policy finds it, up to its bound", "[ppo][RL-3]") {
  const PpoConfig ppo;
  CHECK(rollout_weight(-1.0, -1.0, ppo) == 1.0);
  CHECK(rollout_weight(-2.0, -1.0, ppo) == Approx(std::exp(-1.0)));
  CHECK(rollout_weight(-1.0, -1.5, ppo) == Approx(std::exp(0.5)));
  CHECK(rollout_weight(-1.0, -3.0, ppo) == 2.0);
  CHECK(rollout_weight(-1000.0, 0.0, ppo) > 0.0);
}

TEST_CASE("where lag is allowed the PPO term of each token is weighted, elsewhere it is not", "[learner][ppo][RL-3]") {
  const World world;
  LearnerSetup setup = ppo_setup(world);
  ScoredStep step = score_step({make_trajectory(0, {5}, 1.5)}, {});
  Invocation& call = step.batch.trajectories[0].invocations[0];
  const std::vector<double> old = log_probs_alone(world.student, call);
  call.rollout_log_probs = {-0.5F, -1.0F, -2.0F, -4.0F, -9.0F};
  double sum = 0;
  double sum_of_weights = 0;
  for (std::size_t t = 0; t < old.size(); ++t) {
    const double weight = std::min(std::exp(old[t] - static_cast<double>(call.rollout_log_probs[t])), 2.0);
    sum -= 1.5 * weight;
    sum_of_weights += weight;
  }

  const StepReport plain = run_step(*make_learner(setup), step);
  setup.max_policy_lag = 1;
  const StepReport weighted = run_step(*make_learner(setup), step);

  CHECK(plain.metrics.at("ppo/loss") == Approx(-1.5).epsilon(1e-10));
  CHECK(plain.metrics.count("ppo/rollout_weight") == 0);
  CHECK(weighted.metrics.at("ppo/loss") == Approx(sum / 5).epsilon(1e-10));
  CHECK(weighted.metrics.at("ppo/rollout_weight") == Approx(sum_of_weights / 5).epsilon(1e-10));
}

TEST_CASE("distillation is not weighted by lag", "[learner][opd][RL-3]") {
  const World world;
  LearnerSetup setup = world.setup();
  setup.ppo.coef = 0;
  const auto one = make_learner(setup);
  run_step(*one, world.step);
  setup.max_policy_lag = 1;
  const auto other = make_learner(setup);
  run_step(*other, world.step);
  CHECK(same_bits(one->weights(), other->weights()));
}

TEST_CASE("a rollout log-prob that is not finite excludes its row where it would weigh it", "[learner][RL-3][error]") {
  World world;
  LearnerSetup setup = world.setup();
  world.step.batch.trajectories[0].invocations[0].rollout_log_probs[1] = -std::numeric_limits<float>::infinity();
  CHECK(run_step(*make_learner(setup), world.step).metrics.at("train/excluded_rows") == 0);
  setup.max_policy_lag = 1;
  CHECK(run_step(*make_learner(setup), world.step).metrics.at("train/excluded_rows") == 1);
}

TEST_CASE("responses cut at their limit and runs of one repeated id are fractions of the trained trajectories",
          "[learner][pain:T29]") {
  World world;
  std::vector<Trajectory> trajectories = three_trajectories();
  trajectories[1].invocations[0].response_token_ids = {7, 7, 7};
  trajectories[2].invocations[3].response_token_ids = {9, 5, 5, 9};
  trajectories[2].invocations[1].finish_reason = FinishReason::length;
  trajectories.push_back(make_trajectory(3, {4}, 0.0));
  trajectories[3].status = TrajectoryStatus::env_failed;
  trajectories[3].invocations[0].response_token_ids = {7, 7, 7, 7};
  trajectories[3].invocations[0].finish_reason = FinishReason::length;

  const StepReport report = run_step(*make_learner(world.setup()), score_step(trajectories, world.teacher));

  // One of 8 responses; one token of 24 continues a run, made-up ids apart.
  CHECK(report.metrics.at("train/truncated_frac") == 1.0 / 8);
  CHECK(report.metrics.at("train/repeat_frac") == 1.0 / 24);
  CHECK(report.metrics.at("train/max_lag") == 0);
}

}  // namespace memopd

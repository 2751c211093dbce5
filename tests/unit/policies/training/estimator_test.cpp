// Groups of samples without a critic, and the pull towards the reference.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "policies/training/advantages.hpp"
#include "policies/training/learner.hpp"
#include "runtime/base/random.hpp"
#include "runtime/collective/collective.hpp"
#include "tests/unit/policies/training/training_fixtures.hpp"

namespace memopd {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): a test file
using doubles = std::vector<double>;

/// Sample `sample` of task `task_index`.
Trajectory sample_of(std::int32_t task_index, std::int32_t sample, std::vector<std::int32_t> lengths, double reward) {
  Trajectory made = make_trajectory(task_index, lengths, reward, 1 + static_cast<std::uint64_t>(sample));
  made.id.sample = sample;
  for (Invocation& invocation : made.invocations) {
    invocation.trajectory_id = made.id;
  }
  return made;
}

/// PPO alone by `estimator`, without whitening: at the first optimizer step a token's loss is minus its advantage.
LearnerSetup group_setup(const World& world, const std::string& estimator) {
  LearnerSetup setup = world.setup();
  setup.opd.coef = 0;
  setup.ppo.estimator = estimator;
  setup.ppo.whiten_advantages = false;
  return setup;
}

/// Two samples of task 0 with 5 and 3 response tokens, one of task 1.
ScoredStep two_groups() {
  return score_step({sample_of(0, 0, {3, 2}, 1.0), sample_of(0, 1, {3}, 0.25), sample_of(1, 0, {2}, 0.5)}, {});
}

/// log_prob - reference log_prob of each response token of a trajectory, in time order.
doubles gaps(const std::filesystem::path& policy, const std::filesystem::path& reference, const Trajectory& trajectory,
             double temperature) {
  doubles all;
  for (const Invocation& invocation : trajectory.invocations) {
    const doubles mine = log_probs_alone(policy, invocation, temperature);
    const doubles other = log_probs_alone(reference, invocation, temperature);
    for (std::size_t t = 0; t < mine.size(); ++t) {
      all.push_back(mine[t] - other[t]);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("grpo and rloo equal their definitions on random groups", "[advantages][estimator]") {
  SplitMix random(5);
  for (int round = 0; round < 20; ++round) {
    std::vector<TrajectoryId> ids;
    doubles returns;
    for (std::int32_t i = 0; i < 12; ++i) {
      ids.push_back({"train", 3, static_cast<std::int32_t>(random.below(4)), i});
      returns.push_back(random.normal());
    }
    const GroupAdvantages grpo = group_advantages(ids, returns, Estimator::grpo);
    const GroupAdvantages rloo = group_advantages(ids, returns, Estimator::rloo);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      doubles others;
      for (std::size_t j = 0; j < ids.size(); ++j) {
        if (j != i && ids[j].task_index == ids[i].task_index) {
          others.push_back(returns[j]);
        }
      }
      if (others.empty()) {
        CHECK(grpo.advantages[i] == 0);
        CHECK(rloo.advantages[i] == 0);
        continue;
      }
      const double sum = std::accumulate(others.begin(), others.end(), 0.0);
      const auto n = static_cast<double>(others.size() + 1);
      const double mean = (sum + returns[i]) / n;
      double squares = (returns[i] - mean) * (returns[i] - mean);
      for (const double other : others) {
        squares += (other - mean) * (other - mean);
      }
      CHECK(rloo.advantages[i] == Approx(returns[i] - sum / (n - 1)).epsilon(0).margin(1e-12));
      CHECK(grpo.advantages[i] ==
            Approx((returns[i] - mean) / (std::sqrt(squares / (n - 1)) + 1e-6)).epsilon(0).margin(1e-12));
    }
  }
}

TEST_CASE("a group is a task of one step; a group of one has advantage 0 and is counted", "[advantages][estimator]") {
  const std::vector<TrajectoryId> ids{{"train", 0, 1, 0}, {"train", 1, 1, 1}, {"train", 1, 1, 2}};
  const GroupAdvantages groups = group_advantages(ids, doubles{5, 1, 3}, Estimator::rloo);
  CHECK(groups.advantages == doubles{0, -2, 2});
  CHECK(groups.num_single_groups == 1);
}

TEST_CASE("equal returns have no advantage, and one that is not finite leaves its group", "[advantages][estimator]") {
  const std::vector<TrajectoryId> ids{{"train", 0, 1, 0}, {"train", 0, 1, 1}, {"train", 0, 1, 2}};
  CHECK(group_advantages(ids, doubles{2, 2, 2}, Estimator::grpo).advantages == doubles{0, 0, 0});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const GroupAdvantages broken = group_advantages(ids, doubles{1, nan, 3}, Estimator::rloo);
  CHECK(broken.advantages[0] == -2);
  CHECK(std::isnan(broken.advantages[1]));
  CHECK(broken.advantages[2] == 2);
}

TEST_CASE("an unknown estimator is refused by name", "[learner][estimator][error]") {
  CHECK(parse_estimator("gea").error().message == "estimator \"gea\" is none of gae, grpo, rloo");
}

TEST_CASE("every response token of a sample has the advantage of its trajectory, without a critic",
          "[learner][estimator]") {
  const World world;
  ScoredStep step = two_groups();
  // Per-turn rewards count: 1.5 against 0.25.
  step.batch.trajectories[0].invocations[0].reward = 0.5;

  SECTION("rloo") {
    const StepReport report = run_step(*make_learner(group_setup(world, "rloo")), step);
    // 5 tokens at 1.25, 3 at -1.25, 2 at 0.
    CHECK(report.metrics.at("ppo/loss") == Approx(-(5 * 1.25 - 3 * 1.25) / 10).epsilon(1e-10));
    CHECK(report.metrics.at("ppo/single_groups") == 1);
    CHECK(report.metrics.count("critic/value_loss") == 0);
    CHECK(report.metrics.count("critic/grad_norm") == 0);
  }
  SECTION("grpo") {
    const StepReport report = run_step(*make_learner(group_setup(world, "grpo")), step);
    const double advantage = 0.625 / (std::sqrt(2 * 0.625 * 0.625) + 1e-6);
    CHECK(report.metrics.at("ppo/loss") == Approx(-(5 - 3) * advantage / 10).epsilon(1e-10));
  }
}

TEST_CASE("whitening applies to rloo and never to grpo", "[learner][estimator]") {
  const World world;
  const ScoredStep step = two_groups();
  const auto weights = [&](const std::string& estimator, bool whiten) {
    LearnerSetup setup = group_setup(world, estimator);
    setup.ppo.whiten_advantages = whiten;
    const auto learner = make_learner(setup);
    run_step(*learner, step);
    return learner->weights();
  };
  CHECK(same_bits(weights("grpo", true), weights("grpo", false)));
  CHECK_FALSE(same_bits(weights("rloo", true), weights("rloo", false)));
}

TEST_CASE("groups are the same on every rank, with a reference too", "[learner][estimator][RL-5]") {
  const World world;
  const ScoredStep step = two_groups();
  for (const char* const estimator : {"grpo", "rloo"}) {
    LearnerSetup setup = group_setup(world, estimator);
    setup.ppo.reference_kl_coef = 0.3;
    setup.reference_folder = world.teacher;
    const RankResult one = step_on_ranks(setup, 1, step)[0];
    REQUIRE(one.report);
    for (const RankResult& rank : step_on_ranks(setup, 2, step)) {
      REQUIRE(rank.report);
      for (const char* const metric : {"ppo/loss", "train/grad_norm", "ppo/single_groups", "ppo/reference_kl"}) {
        INFO(metric);
        CHECK(rank.report->metrics.at(metric) == Approx(one.report->metrics.at(metric)).epsilon(0).margin(1e-10));
      }
    }
  }
}

TEST_CASE("a checkpoint without a critic is resumed bit for bit", "[learner][estimator][CL-3]") {
  const World world;
  ScoredStep step = two_groups();
  const LearnerSetup setup = group_setup(world, "grpo");
  const auto whole = make_learner(setup);
  run_step(*whole, step);
  REQUIRE(whole->save_checkpoint(world.folder.path() / "step-1"));
  CHECK_FALSE(std::filesystem::exists(world.folder.path() / "step-1" / "critic"));
  const auto resumed = make_learner(setup);
  REQUIRE(resumed->load_checkpoint(world.folder.path() / "step-1"));
  set_version(step, 1);
  run_step(*whole, step);
  run_step(*resumed, step);
  CHECK(same_bits(whole->weights(), resumed->weights()));
}

TEST_CASE("the reference is the cold start: its penalty is exactly zero before the first update and not after",
          "[learner][reference]") {
  World world;
  for (const DType dtype : {DType::float32, DType::float64}) {
    LearnerSetup setup = world.setup();
    setup.dtype = dtype;
    setup.ppo.reference_kl_coef = 0.1;
    const auto learner = make_learner(setup);
    set_version(world.step, 0);
    CHECK(run_step(*learner, world.step).metrics.at("ppo/reference_kl") == 0);
    set_version(world.step, 1);
    CHECK(run_step(*learner, world.step).metrics.at("ppo/reference_kl") != 0);
  }
}

TEST_CASE("the reference penalty is taken off the reward of each token before GAE", "[learner][reference][RL-4]") {
  const World world;
  LearnerSetup setup = group_setup(world, "gae");
  setup.ppo.reference_kl_coef = 0.3;
  setup.reference_folder = world.teacher;
  setup.sampling_temperature = 0.8;
  const ScoredStep step = score_step({make_trajectory(0, {4, 2, 5}, 1.0)}, {});
  const doubles gap = gaps(world.student, world.teacher, step.batch.trajectories[0], 0.8);
  // gamma = lambda = 1 and values 0: an advantage is what is still to come.
  double to_come = 1.0;
  double sum = 0;
  for (std::size_t t = gap.size(); t-- > 0;) {
    to_come -= 0.3 * gap[t];
    sum += to_come;
  }

  const StepReport report = run_step(*make_learner(setup), step);

  CHECK(report.metrics.at("ppo/loss") == Approx(-sum / 11).epsilon(1e-9));
  CHECK(report.metrics.at("ppo/reference_kl") ==
        Approx(std::accumulate(gap.begin(), gap.end(), 0.0) / 11).epsilon(1e-9));
}

TEST_CASE("the reference penalty is taken off the return of a sample before groups are compared",
          "[learner][reference][estimator]") {
  const World world;
  LearnerSetup setup = group_setup(world, "rloo");
  setup.ppo.reference_kl_coef = 0.3;
  setup.reference_folder = world.teacher;
  const ScoredStep step = two_groups();
  doubles returns{1.0, 0.25};
  for (std::size_t i = 0; i < returns.size(); ++i) {
    for (const double gap : gaps(world.student, world.teacher, step.batch.trajectories[i], 1.0)) {
      returns[i] -= 0.3 * gap;
    }
  }
  const StepReport report = run_step(*make_learner(setup), step);
  CHECK(report.metrics.at("ppo/loss") == Approx(-(5 - 3) * (returns[0] - returns[1]) / 10).epsilon(1e-9));
}

TEST_CASE("a reference with fewer ids than are scored is refused", "[learner][reference][error]") {
  const World world;
  save_tiny_model(world.folder.path() / "small", 4, kVocab - 1);
  LearnerSetup setup = world.setup();
  setup.ppo.reference_kl_coef = 0.1;
  setup.reference_folder = world.folder.path() / "small";
  const auto learner = Learner::create(setup, make_local_collective(1)[0]);
  REQUIRE_FALSE(learner);
  CHECK(learner.error().message.find("has 22 ids, scored_vocab is 23") != std::string::npos);
}

}  // namespace memopd

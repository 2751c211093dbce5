#include "policies/training/learner.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/unit/policies/training/training_fixtures.hpp"

namespace memopd {
using namespace testing;  // NOLINT(google-build-using-namespace): a test file

TEST_CASE("a step gives the same loss and weights whatever the packing, threads and ranks",
          "[learner][RL-5][AP-5][pain:T17][pain:T10]") {
  const World world;
  LearnerSetup setup = world.setup();
  setup.critic.lr = 1e-2;
  setup.ppo.entropy_coef = 0.01;
  const RankResult one = step_on_ranks(setup, 1, world.step)[0];
  REQUIRE(one.report);

  const auto same = [&](const RankResult& other) {
    REQUIRE(other.report);
    for (const char* const metric : {"train/loss", "train/grad_norm", "critic/grad_norm", "opd/divergence", "ppo/loss",
                                     "opd/kl_call_0", "critic/value_loss", "train/entropy"}) {
      INFO(metric);
      CHECK(other.report->metrics.at(metric) == Approx(one.report->metrics.at(metric)).epsilon(0).margin(1e-10));
    }
    CHECK(max_difference(one.weights, other.weights) <= 1e-10);
  };

  SECTION("micro-batches") {
    for (const std::int32_t num_threads : {2, 4}) {
      setup.learner.num_threads = num_threads;
      same(step_on_ranks(setup, 1, world.step)[0]);
    }
  }
  SECTION("pack budgets and sharing") {
    setup.pack.max_tokens = 32;
    same(step_on_ranks(setup, 1, world.step)[0]);
    setup.pack.share_prefixes = false;
    same(step_on_ranks(setup, 1, world.step)[0]);
  }
  SECTION("ranks, also one without work") {
    for (const int world_size : {2, 5}) {
      for (const RankResult& rank : step_on_ranks(setup, world_size, world.step)) {
        same(rank);
      }
    }
  }
}

TEST_CASE("ranks hold equal bits after a step", "[learner][RL-6]") {
  const World world;
  const auto ranks = step_on_ranks(world.setup(), 3, world.step);
  CHECK(same_bits(ranks[0].weights, ranks[1].weights));
  CHECK(same_bits(ranks[0].weights, ranks[2].weights));
}

TEST_CASE("excluded teacher rows stay in the denominator", "[learner][RL-5]") {
  World world;
  LearnerSetup setup = world.setup();
  setup.ppo.coef = 0;
  const StepReport all = run_step(*make_learner(setup), world.step);
  // Call 3 exists in one trajectory only, with 4 of the 24 response tokens.
  REQUIRE(all.metrics.at("train/response_tokens") == 24);
  world.step.edit(2, 3).row_valid.assign(4, 0);

  const StepReport without = run_step(*make_learner(setup), world.step);

  CHECK(without.metrics.at("opd/invalid_teacher_rows") == 4);
  CHECK(without.metrics.at("train/excluded_rows") == 4);
  CHECK(without.metrics.count("opd/kl_call_3") == 0);
  CHECK(without.metrics.at("train/loss") ==
        Approx(all.metrics.at("train/loss") - 4 * all.metrics.at("opd/kl_call_3") / 24).epsilon(1e-10));
}

TEST_CASE("the first ratio is 1: old log-probs come from the code of the update", "[learner][pain:T10]") {
  const World world;
  LearnerSetup setup = world.setup();
  setup.sampling_temperature = 0.5;
  for (const DType dtype : {DType::float64, DType::float32}) {
    setup.dtype = dtype;
    const StepReport report = run_step(*make_learner(setup), world.step);
    CHECK(report.metrics.at("ppo/max_ratio_error") <= 1e-5);
    CHECK(report.metrics.at("ppo/clip_frac") == 0);
  }
}

TEST_CASE("in deterministic mode old log-probs and values have equal bits in every pack, and the first ratio is 1",
          "[learner][RL-7][pain:T10]") {
  // Wide enough that the tensor library's product of a row does depend on how many rows there are.
  constexpr std::int32_t kWideVocab = 512;
  TemporaryFolder folder;
  save_tiny_model(folder.path() / "student", 1, kWideVocab, 96);
  save_tiny_model(folder.path() / "teacher", 2, kWideVocab, 96);
  const ScoredStep step = score_step(three_trajectories(), folder.path() / "teacher", kWideVocab);
  LearnerSetup setup = tiny_setup(folder.path() / "student", folder.path() / "teacher");
  setup.scored_vocab = kWideVocab;
  setup.dtype = DType::float32;
  setup.is_deterministic = true;
  setup.critic.trunk = "own";
  const StepReport one = run_step(*make_learner(setup), step);
  CHECK(one.metrics.at("ppo/max_ratio_error") == 0);
  for (const std::int32_t max_tokens : {16, 64, 256}) {
    for (const bool share_prefixes : {true, false}) {
      setup.pack.max_tokens = max_tokens;
      setup.pack.share_prefixes = share_prefixes;
      const StepReport other = run_step(*make_learner(setup), step);
      // Sums over rows in one order: equal bits of the rows are equal bits of the sums.
      for (const char* const metric : {"train/rollout_gap", "critic/return_mean", "critic/explained_variance",
                                       "opd/divergence", "train/entropy"}) {
        INFO(metric << ", " << max_tokens << " tokens, sharing " << share_prefixes);
        CHECK(other.metrics.at(metric) == one.metrics.at(metric));
      }
    }
  }
}

TEST_CASE("the sampling temperature moves log-probs, not the divergence", "[learner][pain:T13]") {
  const World world;
  LearnerSetup setup = world.setup();
  const StepReport warm = run_step(*make_learner(setup), world.step);
  setup.sampling_temperature = 0.5;
  const StepReport cold = run_step(*make_learner(setup), world.step);
  CHECK(warm.metrics.at("opd/divergence") == Approx(cold.metrics.at("opd/divergence")).epsilon(1e-12));
  CHECK(warm.metrics.at("train/rollout_gap") != Approx(cold.metrics.at("train/rollout_gap")));
}

TEST_CASE("the number of optimizer steps and the rate count trajectories, not calls", "[learner][pain:T18]") {
  const World world;
  LearnerSetup setup = world.setup();
  setup.learner.mini_batch_trajectories = 1;
  setup.learner.num_epochs = 2;
  setup.optimizer.schedule = "linear";
  const auto steps = [&](std::vector<std::int32_t> response_lengths) {
    const ScoredStep step =
        score_step({make_trajectory(0, response_lengths, 1.0), make_trajectory(1, {4}, 0.0)}, world.teacher);
    return run_step(*make_learner(setup), step);
  };
  const StepReport one_call = steps({6});
  const StepReport six_calls = steps({1, 1, 1, 1, 1, 1});

  CHECK(one_call.num_optimizer_steps == 4);
  CHECK(six_calls.num_optimizer_steps == 4);
  CHECK(one_call.metrics.at("train/response_tokens") == six_calls.metrics.at("train/response_tokens"));
  CHECK(one_call.metrics.at("train/lr") == six_calls.metrics.at("train/lr"));
}

TEST_CASE("every call of a trajectory is trained on", "[learner][AP-4][pain:T19]") {
  const World world;
  const ScoredStep step = score_step({make_trajectory(0, {4, 2, 5}, 1.0)}, world.teacher);
  const StepReport report = run_step(*make_learner(world.setup()), step);
  CHECK(report.metrics.at("train/response_tokens") == 11);
  for (const char* const metric : {"opd/kl_call_0", "opd/kl_call_1", "opd/kl_call_2"}) {
    CHECK(report.metrics.at(metric) > 0);
  }
}

TEST_CASE("a teacher equal to the student has no divergence", "[learner][pain:T32]") {
  const World world;
  LearnerSetup setup = tiny_setup(world.student, world.student);
  setup.ppo.coef = 0;
  setup.dtype = DType::float32;
  const StepReport report = run_step(*make_learner(setup), score_step(three_trajectories(), world.student));
  CHECK(std::abs(report.metrics.at("opd/divergence")) <= 1e-6);
}

TEST_CASE("distillation alone approaches the teacher", "[learner][opd]") {
  const World world;
  LearnerSetup setup = world.setup();
  setup.ppo.coef = 0;
  setup.optimizer.lr = 1e-2;
  const auto learner = make_learner(setup);
  ScoredStep step = world.step;
  const double first = run_step(*learner, step).metrics.at("opd/divergence");
  double last = first;
  for (int i = 0; i < 20; ++i) {
    set_version(step, learner->policy_version());
    last = run_step(*learner, step).metrics.at("opd/divergence");
  }
  CHECK(last < 0.5 * first);
}

TEST_CASE("trajectories that cannot be trained on are dropped with a reason, none silently", "[learner][pain:T05]") {
  World world;
  std::vector<Trajectory> trajectories = three_trajectories();
  trajectories.push_back(make_trajectory(3, {0}, 1.0));
  trajectories.push_back(make_trajectory(4, {2}, 1.0));
  trajectories.back().status = TrajectoryStatus::timeout;
  ScoredStep step = score_step(std::move(trajectories), world.teacher);
  step.objects.erase(step.batch.scores.front().object);

  const StepReport report = run_step(*make_learner(world.setup()), step);

  CHECK(report.num_trained == 2);
  REQUIRE(report.dropped.size() == 3);
  CHECK(report.dropped[0].id.task_index == 0);
  CHECK(report.dropped[0].reason == "teacher_unavailable");
  CHECK(report.dropped[1].reason == "empty");
  CHECK(report.dropped[2].reason == "timeout");
  CHECK(report.metrics.at("train/dropped_empty") == 1);
  CHECK(std::isfinite(report.metrics.at("train/loss")));
}

TEST_CASE("scores lost on one rank are lost on every rank", "[learner]") {
  World world;
  world.step.objects.erase(world.step.batch.scores.front().object);
  for (const RankResult& rank : step_on_ranks(world.setup(), 2, world.step)) {
    REQUIRE(rank.report);
    CHECK(rank.report->num_trained == 2);
    CHECK(rank.report->dropped.at(0).reason == "teacher_unavailable");
  }
}

TEST_CASE("a step of which nothing is left makes no optimizer step and no version", "[learner][pain:T05]") {
  World world;
  for (Trajectory& trajectory : world.step.batch.trajectories) {
    trajectory.status = TrajectoryStatus::aborted;
  }
  const auto learner = make_learner(world.setup());
  const WeightSet before = learner->weights();

  const StepReport report = run_step(*learner, world.step);

  CHECK(report.num_optimizer_steps == 0);
  CHECK(report.policy_version == 0);
  CHECK(report.dropped.size() == 3);
  CHECK(same_bits(before, learner->weights()));
}

TEST_CASE("student and teacher of different vocabularies train on the shared ids", "[learner][pain:T14]") {
  TemporaryFolder folder;
  save_tiny_model(folder.path() / "student", 1, kVocab + 1);
  save_tiny_model(folder.path() / "teacher", 2, kVocab + 3);
  LearnerSetup setup = tiny_setup(folder.path() / "student", folder.path() / "teacher");
  const StepReport report =
      run_step(*make_learner(setup), score_step(three_trajectories(), folder.path() / "teacher", kVocab));
  CHECK(report.num_optimizer_steps == 1);
  CHECK(report.metrics.at("opd/divergence") > 0);
}

TEST_CASE("the mean over sequences weighs a short trajectory like a long one", "[learner][ppo]") {
  const World world;
  LearnerSetup setup = world.setup();
  setup.opd.coef = 0;
  setup.ppo.loss_mean = "sequence";
  setup.ppo.whiten_advantages = false;
  const ScoredStep step = score_step({make_trajectory(0, {8}, 1.0), make_trajectory(1, {2}, -3.0)}, {});
  const StepReport report = run_step(*make_learner(setup), step);
  // Values start at 0 and ratios at 1: every token's loss is minus its trajectory's reward.
  CHECK(report.metrics.at("ppo/loss") == Approx(0.5 * (-1.0 + 3.0)).epsilon(1e-9));
  setup.ppo.loss_mean = "token";
  CHECK(run_step(*make_learner(setup), step).metrics.at("ppo/loss") == Approx((-8 * 1.0 + 2 * 3.0) / 10).epsilon(1e-9));
}

TEST_CASE("the plan counts every optimizer step of a run", "[learner]") {
  LearnerConfig learner;
  learner.tasks_per_step = 5;
  learner.mini_batch_trajectories = 4;
  learner.num_epochs = 2;
  CHECK(planned_optimizer_steps(learner, 10, 2) == 10 * 2 * 3);
}

}  // namespace memopd

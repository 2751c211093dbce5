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

/// A student and a teacher on disk, and the three trajectories scored by the teacher.
struct World {
  TemporaryFolder folder;
  std::filesystem::path student = folder.path() / "student";
  std::filesystem::path teacher = folder.path() / "teacher";
  ScoredStep step;

  World() {
    save_tiny_model(student, 1);
    save_tiny_model(teacher, 2);
    step = score_step(three_trajectories(), teacher);
  }
  [[nodiscard]] LearnerSetup setup() const { return tiny_setup(student, teacher); }
};

StepReport run(Learner& learner, const ScoredStep& step) {
  const auto report = learner.step(step.batch, step.lookup());
  INFO((report ? std::string() : report.error().message));
  REQUIRE(report);
  return *report;
}

Error error_of(const LearnerSetup& setup, const ScoredStep& step) {
  const auto learner = make_learner(setup);
  const WeightSet before = learner->weights();
  const auto report = learner->step(step.batch, step.lookup());
  REQUIRE_FALSE(report);
  CHECK(same_bits(before, learner->weights()));
  return report.error();
}

}  // namespace

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
      CHECK(other.report->metrics.at(metric) == Approx(one.report->metrics.at(metric)).margin(1e-10));
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
  const StepReport all = run(*make_learner(setup), world.step);
  // Call 3 exists in one trajectory only, with 4 of the 24 response tokens.
  REQUIRE(all.metrics.at("train/response_tokens") == 24);
  world.step.edit(2, 3).row_valid.assign(4, 0);

  const StepReport without = run(*make_learner(setup), world.step);

  CHECK(without.metrics.at("opd/invalid_teacher_rows") == 4);
  CHECK(without.metrics.at("train/excluded_rows") == 4);
  CHECK(without.metrics.count("opd/kl_call_3") == 0);
  CHECK(without.metrics.at("train/loss") ==
        Approx(all.metrics.at("train/loss") - 4 * all.metrics.at("opd/kl_call_3") / 24).epsilon(1e-10));
}

TEST_CASE("a teacher row of NaN is excluded and counted, the rest is trained on", "[learner][error]") {
  World world;
  TeacherScores& scores = world.step.edit(0, 1);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::memcpy(scores.hidden.bytes.data(), &nan, sizeof nan);

  const auto learner = make_learner(world.setup());
  const StepReport report = run(*learner, world.step);

  CHECK(report.metrics.at("opd/invalid_teacher_rows") == 1);
  CHECK(report.num_optimizer_steps == 1);
  CHECK(std::isfinite(report.metrics.at("train/loss")));
}

TEST_CASE("a reward that is not finite excludes its trajectory's rows", "[learner][error]") {
  World world;
  world.step.batch.trajectories[1].rewards["final"] = std::numeric_limits<double>::quiet_NaN();
  const StepReport report = run(*make_learner(world.setup()), world.step);
  CHECK(report.metrics.at("train/excluded_rows") == 3);
  CHECK(report.num_optimizer_steps == 1);
}

TEST_CASE("the first ratio is 1: old log-probs come from the code of the update", "[learner][pain:T10]") {
  const World world;
  LearnerSetup setup = world.setup();
  setup.sampling_temperature = 0.5;
  for (const DType dtype : {DType::float64, DType::float32}) {
    setup.dtype = dtype;
    const StepReport report = run(*make_learner(setup), world.step);
    CHECK(report.metrics.at("ppo/max_ratio_error") <= 1e-5);
    CHECK(report.metrics.at("ppo/clip_frac") == 0);
  }
}

TEST_CASE("the sampling temperature moves log-probs, not the divergence", "[learner][pain:T13]") {
  const World world;
  LearnerSetup setup = world.setup();
  const StepReport warm = run(*make_learner(setup), world.step);
  setup.sampling_temperature = 0.5;
  const StepReport cold = run(*make_learner(setup), world.step);
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
    return run(*make_learner(setup), step);
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
  const StepReport report = run(*make_learner(world.setup()), step);
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
  const StepReport report = run(*make_learner(setup), score_step(three_trajectories(), world.student));
  CHECK(std::abs(report.metrics.at("opd/divergence")) <= 1e-6);
}

TEST_CASE("distillation alone approaches the teacher", "[learner][opd]") {
  const World world;
  LearnerSetup setup = world.setup();
  setup.ppo.coef = 0;
  setup.optimizer.lr = 1e-2;
  const auto learner = make_learner(setup);
  ScoredStep step = world.step;
  const double first = run(*learner, step).metrics.at("opd/divergence");
  double last = first;
  for (int i = 0; i < 20; ++i) {
    step.batch.policy_version = learner->policy_version();
    last = run(*learner, step).metrics.at("opd/divergence");
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

  const StepReport report = run(*make_learner(world.setup()), step);

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

  const StepReport report = run(*learner, world.step);

  CHECK(report.num_optimizer_steps == 0);
  CHECK(report.policy_version == 0);
  CHECK(report.dropped.size() == 3);
  CHECK(same_bits(before, learner->weights()));
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

  const StepReport first = run(*learner, world.step);
  const StepReport second = run(*learner, world.step);

  CHECK(first.num_optimizer_steps == 0);
  CHECK(first.skipped_updates == 3);
  CHECK(second.max_skipped_in_a_row == 6);
  CHECK(learner->policy_version() == 0);
}

TEST_CASE("a learner resumed from a checkpoint gives the bits of an uninterrupted one", "[learner][CL-3][pain:T23]") {
  for (const char* const trunk : {"shared", "own"}) {
    const World world;
    LearnerSetup setup = world.setup();
    setup.critic.trunk = trunk;
    setup.dtype = DType::float32;
    setup.optimizer.schedule = "cosine";
    setup.optimizer.warmup_steps = 5;
    setup.learner.mini_batch_trajectories = 1;
    ScoredStep step = world.step;
    const auto whole = make_learner(setup);
    run(*whole, step);
    const auto folder = world.folder.path() / "step-1";
    REQUIRE(whole->save_checkpoint(folder));
    step.batch.policy_version = 1;
    step.batch.step = 1;
    const StepReport uninterrupted = run(*whole, step);

    const auto resumed = make_learner(setup);
    REQUIRE(resumed->load_checkpoint(folder));
    const StepReport report = run(*resumed, step);

    CHECK(same_bits(whole->weights(), resumed->weights()));
    CHECK(report.policy_version == 2);
    for (const auto& [name, value] : uninterrupted.metrics) {
      if (name.rfind("time/", 0) != 0) {
        INFO(name);
        CHECK(report.metrics.at(name) == value);
      }
    }
  }
}

TEST_CASE("a checkpoint is never overwritten, and a torn one changes nothing", "[learner][error]") {
  const World world;
  const auto learner = make_learner(world.setup());
  const auto folder = world.folder.path() / "step-0";
  REQUIRE(learner->save_checkpoint(folder));
  CHECK(learner->save_checkpoint(folder).error().code == ErrorCode::already_exists);
  run(*learner, world.step);
  const WeightSet before = learner->weights();
  std::filesystem::resize_file(folder / "optimizer.safetensors", 40);

  const auto loaded = learner->load_checkpoint(folder);

  REQUIRE_FALSE(loaded);
  CHECK(same_bits(before, learner->weights()));
  CHECK(learner->policy_version() == 1);
  CHECK(learner->load_checkpoint(world.folder.path() / "none").error().code == ErrorCode::not_found);
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

TEST_CASE("student and teacher of different vocabularies train on the shared ids", "[learner][pain:T14]") {
  TemporaryFolder folder;
  save_tiny_model(folder.path() / "student", 1, kVocab + 1);
  save_tiny_model(folder.path() / "teacher", 2, kVocab + 3);
  LearnerSetup setup = tiny_setup(folder.path() / "student", folder.path() / "teacher");
  const StepReport report =
      run(*make_learner(setup), score_step(three_trajectories(), folder.path() / "teacher", kVocab));
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
  const StepReport report = run(*make_learner(setup), step);
  // Values start at 0 and ratios at 1: every token's loss is minus its trajectory's reward.
  CHECK(report.metrics.at("ppo/loss") == Approx(0.5 * (-1.0 + 3.0)).epsilon(1e-9));
  setup.ppo.loss_mean = "token";
  CHECK(run(*make_learner(setup), step).metrics.at("ppo/loss") == Approx((-8 * 1.0 + 2 * 3.0) / 10).epsilon(1e-9));
}

TEST_CASE("the plan counts every optimizer step of a run", "[learner]") {
  LearnerConfig learner;
  learner.tasks_per_step = 5;
  learner.mini_batch_trajectories = 4;
  learner.num_epochs = 2;
  CHECK(planned_optimizer_steps(learner, 10, 2) == 10 * 2 * 3);
}

}  // namespace memopd

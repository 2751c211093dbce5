// The control states in the model, the learner and the cold start.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "policies/model/packed_attention.hpp"
#include "policies/model/packed_tensors.hpp"
#include "policies/training/learner.hpp"
#include "policies/training/sft.hpp"
#include "runtime/alignpack/dense_mask.hpp"
#include "runtime/alignpack/history_pack.hpp"
#include "runtime/collective/collective.hpp"
#include "tests/unit/policies/training/training_fixtures.hpp"

namespace memopd {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): a test file

/// Log-probs of the response tokens of `trajectory`, in order, each predicted from its whole history.
std::vector<double> log_probs_in_history(const std::filesystem::path& model, const Trajectory& trajectory) {
  const auto [history, places] = history_of(trajectory);
  const std::vector<double> all = log_probs_alone(model, history);
  std::vector<double> of_responses;
  for (const std::size_t place : places) {
    of_responses.push_back(all[place]);
  }
  return of_responses;
}

std::vector<const Trajectory*> pointers_to(const std::vector<Trajectory>& trajectories) {
  std::vector<const Trajectory*> pointers;
  for (const Trajectory& trajectory : trajectories) {
    pointers.push_back(&trajectory);
  }
  return pointers;
}

}  // namespace

TEST_CASE("attention over a memory-mask pack equals the dense formula under its mask", "[model][history]") {
  const std::vector<Trajectory> trajectories = three_trajectories();
  const PackedBatch pack =
      pack_histories(pointers_to(trajectories), HistoryState::memory_mask, {}, [](const Invocation& call) {
        return static_cast<std::int32_t>(call.response_token_ids.size() / 2);
      })->front();
  const std::int64_t num_tokens = pack.num_tokens();
  at::manual_seed(3);
  const auto draw = [&] { return at::randn({num_tokens, 2, 8}, at::kDouble); };
  const at::Tensor q = draw();
  const at::Tensor k = draw();
  const at::Tensor v = draw();
  std::vector<std::uint8_t> mask = dense_mask(pack);
  const at::Tensor is_hidden = at::from_blob(mask.data(), {num_tokens, num_tokens}, at::kByte).eq(0);
  const at::Tensor scores = at::einsum("thd,shd->hts", {q, k}).mul(0.3).masked_fill(is_hidden, -1e300);
  const at::Tensor expected = at::einsum("hts,shd->thd", {scores.softmax(-1), v});

  const at::Tensor found = packed_attention(q, k, v, to_tensors(pack).value(), 0.3);

  CHECK((found - expected).abs().max().item<double>() <= 1e-12);
}

TEST_CASE("a learner in persistent-history state reads every call in its whole history", "[learner][history]") {
  World world;
  LearnerSetup setup = world.setup();
  setup.opd.coef = 0;
  for (Trajectory& trajectory : world.step.batch.trajectories) {
    const std::vector<double> log_probs = log_probs_in_history(world.student, trajectory);
    std::size_t next = 0;
    for (Invocation& invocation : trajectory.invocations) {
      for (float& log_prob : invocation.rollout_log_probs) {
        log_prob = static_cast<float>(log_probs[next++]);
      }
    }
  }
  // What is left of the gap is the rounding of recorded log-probs to float.
  setup.learner.state = "persistent_history";
  for (const std::int32_t max_tokens : {4096, 40}) {
    setup.pack.max_tokens = max_tokens;
    const StepReport report = run_step(*make_learner(setup), world.step);
    CHECK(report.metrics.at("train/rollout_gap") <= 1e-6);
    CHECK(report.metrics.at("train/response_tokens") == 24);
    CHECK(report.metrics.at("ppo/max_ratio_error") <= 1e-12);
    // 11, 3 and 10 response tokens, a question of 6, two observation tokens between calls.
    CHECK(report.metrics.at("train/packed_tokens") == 24 + 3 * 6 + 2 * (2 + 0 + 3));
  }
  setup.learner.state = "aligned";
  CHECK(run_step(*make_learner(setup), world.step).metrics.at("train/rollout_gap") > 1e-3);
}

TEST_CASE("a step on histories gives the same weights whatever the threads and ranks", "[learner][history][RL-5]") {
  const World world;
  LearnerSetup setup = world.setup();
  setup.learner.state = "persistent_history";
  const RankResult one = step_on_ranks(setup, 1, world.step)[0];
  REQUIRE(one.report);
  setup.learner.num_threads = 2;
  for (const RankResult& rank : step_on_ranks(setup, 2, world.step)) {
    REQUIRE(rank.report);
    CHECK(max_difference(one.weights, rank.weights) <= 1e-10);
  }
}

TEST_CASE("a history too long for a pack is refused on every rank", "[learner][history][error]") {
  const World world;
  LearnerSetup setup = world.setup();
  setup.learner.state = "persistent_history";
  setup.pack.max_tokens = 20;
  for (const RankResult& rank : step_on_ranks(setup, 2, world.step)) {
    REQUIRE_FALSE(rank.report);
    CHECK(rank.report.error().code == ErrorCode::invocation_too_long);
  }
}

TEST_CASE("an unknown state of the learner is refused by name", "[learner][history][error]") {
  const World world;
  LearnerSetup setup = world.setup();
  setup.learner.state = "flat";
  const auto learner = Learner::create(setup, make_local_collective(1)[0]);
  REQUIRE_FALSE(learner);
  CHECK(learner.error().message == "learner.state \"flat\" is none of aligned, persistent_history");
}

TEST_CASE("a flat supervised step is the mean over every response token in its whole history", "[sft][history][RL-5]") {
  TemporaryFolder folder;
  save_tiny_model(folder.path() / "start", 6);
  const std::vector<Trajectory> trajectories = three_trajectories();
  SftSetup setup;
  setup.sft.init = (folder.path() / "start").string();
  setup.sft.num_steps = 10;
  setup.optimizer.lr = 1e-2;
  setup.dtype = DType::float64;
  double sum = 0;
  for (const Trajectory& trajectory : trajectories) {
    for (const double log_prob : log_probs_in_history(folder.path() / "start", trajectory)) {
      sum -= log_prob;
    }
  }
  const auto whole = SftTrainer::create(setup).value();
  const auto report = whole->step_flat(pointers_to(trajectories));
  REQUIRE(report);
  CHECK(report->num_tokens == 24);
  CHECK(report->num_packed_tokens == 24 + 3 * 6 + 2 * (2 + 0 + 3));
  CHECK(report->loss == Approx(sum / 24).epsilon(1e-10));
  CHECK(whole->num_steps() == 1);

  setup.sft.num_threads = 3;
  const auto split = SftTrainer::create(setup).value();
  REQUIRE(split->step_flat(pointers_to(trajectories)));
  CHECK(max_difference(whole->weights(), split->weights()) <= 1e-10);
}

TEST_CASE("the share of flat steps is drawn by seed and step", "[sft][history][RL-6]") {
  SftConfig sft;
  const auto count = [&](std::uint64_t seed) {
    int num_flat = 0;
    for (std::int64_t step = 0; step < 1000; ++step) {
      num_flat += is_flat_step(sft, seed, step) ? 1 : 0;
    }
    return num_flat;
  };
  CHECK(count(1) == 0);
  sft.flat_frac = 1;
  CHECK(count(1) == 1000);
  sft.flat_frac = 0.25;
  // 250 expected, standard deviation 14.
  CHECK(std::abs(count(1) - 250) < 60);
  CHECK(count(1) == count(1));
  bool differs = false;
  for (std::int64_t step = 0; step < 50; ++step) {
    differs = differs || is_flat_step(sft, 1, step) != is_flat_step(sft, 2, step);
  }
  CHECK(differs);
}

}  // namespace memopd

#include "policies/training/sft.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/unit/policies/training/training_fixtures.hpp"

namespace memopd {
namespace {

using namespace testing;

SftSetup tiny_sft() {
  SftSetup setup;
  setup.sft.model.hidden_size = 16;
  setup.sft.model.intermediate_size = 24;
  setup.sft.model.num_hidden_layers = 2;
  setup.sft.model.num_attention_heads = 2;
  setup.sft.model.num_key_value_heads = 2;
  setup.sft.model.num_previous_token_heads = 1;
  setup.sft.num_steps = 30;
  setup.optimizer.lr = 1e-2;
  setup.optimizer.weight_decay = 0;
  setup.vocab_size = kVocab;
  setup.seed = 3;
  setup.dtype = DType::float64;
  return setup;
}

std::vector<const Invocation*> invocations_of(const std::vector<Trajectory>& trajectories) {
  std::vector<const Invocation*> invocations;
  for (const Trajectory& trajectory : trajectories) {
    for (const Invocation& invocation : trajectory.invocations) {
      invocations.push_back(&invocation);
    }
  }
  return invocations;
}

std::unique_ptr<SftTrainer> make_trainer(const SftSetup& setup) { return SftTrainer::create(setup).value(); }

}  // namespace

TEST_CASE("supervised steps lower the loss on their batch", "[sft]") {
  const auto trajectories = three_trajectories();
  const auto batch = invocations_of(trajectories);
  const auto trainer = make_trainer(tiny_sft());
  const double first = trainer->step(batch)->loss;
  double last = first;
  for (int i = 0; i < 29; ++i) {
    last = trainer->step(batch)->loss;
  }
  CHECK(first == Approx(std::log(kVocab)).epsilon(0).margin(1.5));
  CHECK(last < 0.5 * first);
  CHECK(trainer->num_steps() == 30);
}

TEST_CASE("the loss is the mean over response tokens of the batch, however it is packed", "[sft][RL-5][pain:T17]") {
  const auto trajectories = three_trajectories();
  const auto batch = invocations_of(trajectories);
  const auto one = make_trainer(tiny_sft());
  const auto whole = one->step(batch);
  REQUIRE(whole);
  CHECK(whole->num_tokens == 24);
  SftSetup setup = tiny_sft();
  for (const std::int32_t num_threads : {2, 3}) {
    setup.sft.num_threads = num_threads;
    setup.pack.max_tokens = num_threads == 3 ? 32 : 4096;
    const auto other = make_trainer(setup);
    const auto split = other->step(batch);
    REQUIRE(split);
    CHECK(split->loss == Approx(whole->loss).epsilon(0).margin(1e-10));
    CHECK(split->grad_norm == Approx(whole->grad_norm).epsilon(0).margin(1e-10));
    CHECK(max_difference(one->weights(), other->weights()) <= 1e-10);
  }
}

TEST_CASE("token losses of a short and a long response are averaged over tokens, not over responses",
          "[sft][RL-5][pain:T17]") {
  const auto trajectories = three_trajectories();
  const Invocation* const first = &trajectories[0].invocations[0];
  const Invocation* const second = &trajectories[2].invocations[1];
  const auto loss = [](std::vector<const Invocation*> batch) { return make_trainer(tiny_sft())->step(batch)->loss; };
  CHECK(loss({first, second}) == Approx((4 * loss({first}) + 1 * loss({second})) / 5).epsilon(1e-10));
}

TEST_CASE("prompt tokens are not in the loss: a one-token response has one row", "[sft][AP-4][pain:T06]") {
  const Trajectory trajectory = make_trajectory(0, {1}, 1.0);
  const auto report = make_trainer(tiny_sft())->step(std::vector<const Invocation*>{&trajectory.invocations[0]});
  REQUIRE(report);
  CHECK(report->num_tokens == 1);
}

TEST_CASE("a batch without a response token updates nothing", "[sft][pain:T05]") {
  const Trajectory trajectory = make_trajectory(0, {0}, 1.0);
  const auto trainer = make_trainer(tiny_sft());
  const WeightSet before = trainer->weights();
  const auto report = trainer->step(std::vector<const Invocation*>{&trajectory.invocations[0]});
  REQUIRE(report);
  CHECK(report->is_skipped);
  CHECK(same_bits(before, trainer->weights()));
}

TEST_CASE("copying rows come before the first step and end after the planned number", "[sft][copy_rows][error]") {
  SftSetup setup = tiny_sft();
  setup.sft.copy_warmup_steps = 2;
  setup.sft.copy_warmup_rows = 4;
  const auto trainer = make_trainer(setup);
  REQUIRE(trainer->copy_warmup_step());
  REQUIRE(trainer->copy_warmup_step());
  CHECK(trainer->copy_warmup_step().error().code == ErrorCode::refused);
}

TEST_CASE("copying rows teach copying", "[sft][copy_rows]") {
  SftSetup setup = tiny_sft();
  setup.sft.model.hidden_size = 32;
  setup.sft.model.num_attention_heads = 4;
  setup.sft.model.num_key_value_heads = 4;
  setup.sft.model.num_previous_token_heads = 3;
  setup.sft.copy_warmup_steps = 60;
  setup.sft.copy_warmup_rows = 16;
  setup.dtype = DType::float32;
  const auto trainer = make_trainer(setup);
  const double first = trainer->copy_warmup_step()->loss;
  double last = first;
  for (int i = 1; i < 60; ++i) {
    last = trainer->copy_warmup_step()->loss;
  }
  CHECK(last < first - 0.4);
}

TEST_CASE("averaged weights lie between the first and the last and are what is saved", "[sft]") {
  const auto trajectories = three_trajectories();
  const auto batch = invocations_of(trajectories);
  SftSetup setup = tiny_sft();
  const auto raw = make_trainer(setup);
  setup.sft.ema = 0.99;
  const auto averaged = make_trainer(setup);
  const WeightSet start = raw->weights();
  REQUIRE(raw->step(batch));
  REQUIRE(averaged->step(batch));

  // keep = 2/11 after the first step: the average went 9/11 of the way.
  CHECK(max_difference(start, averaged->weights()) ==
        Approx(9.0 / 11.0 * max_difference(start, raw->weights())).epsilon(1e-6));

  const TemporaryFolder folder;
  REQUIRE(averaged->save(folder.path() / "cold"));
  setup.sft.init = (folder.path() / "cold").string();
  CHECK(same_bits(averaged->weights(), make_trainer(setup)->weights()));
}

TEST_CASE("an id outside the vocabulary is refused by name", "[sft][error]") {
  Trajectory trajectory = make_trajectory(0, {2}, 1.0);
  trajectory.invocations[0].response_token_ids[0] = kVocab;
  const auto report = make_trainer(tiny_sft())->step(std::vector<const Invocation*>{&trajectory.invocations[0]});
  REQUIRE_FALSE(report);
  CHECK(report.error().message == "trajectory train.0.0.0, invocation 0: response id 23 is outside [0, 23)");
}

}  // namespace memopd

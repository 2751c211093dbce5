// One optimizer step against a naive one: every invocation alone through the model, losses by autograd.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "policies/model/checkpoint.hpp"
#include "policies/model/packed_tensors.hpp"
#include "policies/model/transformer.hpp"
#include "policies/training/learner.hpp"
#include "runtime/alignpack/align_pack.hpp"
#include "tests/unit/policies/training/training_fixtures.hpp"

namespace memopd {
namespace {

using namespace testing;

at::Tensor rows_alone(const Transformer& model, const Invocation& invocation) {
  const Invocation* const pointer = &invocation;
  const auto packs = align_pack(std::span<const Invocation* const>(&pointer, 1), {.share_prefixes = false});
  const PackedTensors pack = to_tensors(packs->front()).value();
  return model.hidden(pack).index_select(0, pack.response_index);
}

struct NaiveStep {
  double loss = 0;
  double grad_norm = 0;
};

/// First optimizer step: ratios are 1, values 0, so A = gamma-lambda-discounted rewards, not whitened.
NaiveStep naive_step(const std::vector<Trajectory>& trajectories, const LearnerSetup& setup) {
  Transformer student = load_transformer(setup.student_folder, at::kDouble).value();
  const Transformer teacher = load_transformer(setup.teacher_folder, at::kDouble).value();
  student.set_requires_grad(true);
  at::Tensor total = at::zeros({}, at::kDouble);
  double num_tokens = 0;
  for (const Trajectory& trajectory : trajectories) {
    const double reward = trajectory.rewards.at("final");
    auto left = static_cast<double>(num_response_tokens(trajectory));
    for (const Invocation& invocation : trajectory.invocations) {
      const at::Tensor logits = student.logits(rows_alone(student, invocation));
      const at::Tensor log_q = logits.log_softmax(-1);
      const at::Tensor log_p = teacher.logits(rows_alone(teacher, invocation)).detach().log_softmax(-1);
      total = total + setup.opd.coef * (log_p.exp() * (log_p - log_q)).sum();
      const at::Tensor log_probs = (logits / setup.sampling_temperature).log_softmax(-1);
      total = total + setup.ppo.entropy_coef * (log_probs.exp() * log_probs).sum();
      for (std::size_t t = 0; t < invocation.response_token_ids.size(); ++t) {
        const at::Tensor log_prob = log_probs[static_cast<std::int64_t>(t)][invocation.response_token_ids[t]];
        const double advantage = reward * std::pow(setup.ppo.gamma * setup.ppo.lambda, left - 1);
        total = total - setup.ppo.coef * advantage * (log_prob - log_prob.detach()).exp();
        left -= 1;
        num_tokens += 1;
      }
    }
  }
  const at::Tensor loss = total / num_tokens;
  loss.backward();
  double squares = 0;
  for (const NamedTensor& parameter : student.parameters()) {
    squares += parameter.tensor.grad().square().sum().item<double>();
  }
  return {loss.item<double>(), std::sqrt(squares)};
}

}  // namespace

TEST_CASE("loss and gradient of a packed step equal those of every invocation alone, by autograd",
          "[learner][AP-5][AP-4][RL-5]") {
  TemporaryFolder folder;
  save_tiny_model(folder.path() / "student", 1);
  save_tiny_model(folder.path() / "teacher", 2);
  LearnerSetup setup = tiny_setup(folder.path() / "student", folder.path() / "teacher");
  setup.ppo.whiten_advantages = false;
  setup.ppo.entropy_coef = 0.05;
  setup.ppo.coef = 0.3;
  setup.ppo.gamma = 0.97;
  setup.ppo.lambda = 0.9;
  setup.sampling_temperature = 0.7;
  const ScoredStep step = score_step(three_trajectories(), setup.teacher_folder);

  const NaiveStep naive = naive_step(step.batch.trajectories, setup);
  const auto report = make_learner(setup)->step(step.batch, step.lookup());

  REQUIRE(report);
  CHECK(report->metrics.at("train/loss") == Approx(naive.loss).epsilon(1e-10));
  CHECK(report->metrics.at("train/grad_norm") == Approx(naive.grad_norm).epsilon(1e-10));
  CHECK(naive.grad_norm > 1e-3);
}

}  // namespace memopd

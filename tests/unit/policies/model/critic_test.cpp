#include "policies/model/critic.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>

#include "policies/model/checkpoint.hpp"
#include "tests/unit/policies/model/tiny_models.hpp"

using namespace memopd;
using namespace memopd::testing;

namespace {

const PackedTensors& example_pack() {
  static const PackedTensors pack = to_tensors(pack_of({invocation({5, 6}, {7, 8, 9})})).value();
  return pack;
}

/// Gives the output layer weights, so that values and gradients are not all zero.
void disturb(const Critic& critic) {
  const at::NoGradGuard no_grad;
  for (const NamedTensor& parameter : critic.parameters()) {
    if (parameter.name == "value_head.output.weight") parameter.tensor.fill_(0.5);
  }
}

at::Tensor student_rows() {
  const auto& pack = example_pack();
  return tiny_model().hidden(pack).index_select(0, pack.response_index);
}

}  // namespace

TEST_CASE("every value starts at zero and there is one per response row", "[critic]") {
  const auto critic = Critic::create({.trunk = "shared", .feature_size = 16});

  REQUIRE(critic);
  const at::Tensor values = critic->values(example_pack(), student_rows());
  CHECK(values.sizes() == at::IntArrayRef{3});
  CHECK(values.abs().max().item<float>() == 0.0f);
}

TEST_CASE("a shared trunk never moves the student", "[critic]") {
  const auto critic = Critic::create({.trunk = "shared", .feature_size = 16}).value();
  disturb(critic);
  const at::Tensor rows = student_rows().requires_grad_();
  const at::Tensor sum = critic.values(example_pack(), rows).sum();

  const auto gradients = torch::autograd::grad({sum}, {rows, critic.parameters()[0].tensor}, {}, false, false, true);

  CHECK_FALSE(gradients[0].defined());
  CHECK(gradients[1].abs().max().item<float>() > 0.0f);
}

TEST_CASE("an own trunk reads the pack and trains its decoder", "[critic]") {
  const TemporaryFolder folder("critic");
  REQUIRE(save_transformer(folder.path(), tiny_model()));
  const auto critic = Critic::create({.trunk = "own", .model_folder = folder.path()}).value();
  disturb(critic);

  const at::Tensor sum = critic.values(example_pack(), {}).sum();
  const auto gradients = torch::autograd::grad({sum}, {critic.parameters()[0].tensor});

  CHECK(critic.has_own_trunk());
  CHECK(critic.parameters()[0].name == "model.embed_tokens.weight");
  CHECK(gradients[0].abs().max().item<float>() > 0.0f);
}

TEST_CASE("a saved critic loads with identical values", "[critic]") {
  const TemporaryFolder model("critic_model"), saved("critic_saved");
  REQUIRE(save_transformer(model.path(), tiny_model()));
  for (const std::string trunk : {"shared", "own"}) {
    const CriticOptions options{.trunk = trunk, .model_folder = model.path(), .feature_size = 16, .seed = 1};
    const auto critic = Critic::create(options).value();
    disturb(critic);
    REQUIRE(critic.save(saved.path()));
    CriticOptions other = options;
    other.seed = 2;
    auto loaded = Critic::create(other).value();
    CHECK_FALSE(
        at::equal(loaded.values(example_pack(), student_rows()), critic.values(example_pack(), student_rows())));

    REQUIRE(loaded.load(saved.path()));
    CHECK(at::equal(loaded.values(example_pack(), student_rows()), critic.values(example_pack(), student_rows())));
  }
}

TEST_CASE("deterministic: a value has equal bits alone and in any pack", "[critic][RL-7][pain:T10]") {
  const TemporaryFolder folder("critic_deterministic");
  Transformer student = tiny_model(wide_config());
  student.set_row_exact(true);
  REQUIRE(save_transformer(folder.path(), student));
  const auto trajectories =
      random_trajectories(3, 6, {.vocab_size = 400, .min_calls = 3, .max_calls = 6, .max_run = 12});
  for (const std::string trunk : {"shared", "own"}) {
    auto critic = Critic::create({.trunk = trunk, .model_folder = folder.path(), .feature_size = 96}).value();
    disturb(critic);
    critic.set_row_exact(true);
    const auto values_of = [&](const PackedBatch& pack) {
      const PackedTensors tensors = to_tensors(pack).value();
      return critic.values(tensors, student.hidden(tensors).index_select(0, tensors.response_index)).detach();
    };
    std::vector<at::Tensor> alone;
    for (const Invocation* call : invocations_of(trajectories)) {
      if (!call->response_token_ids.empty()) alone.push_back(values_of(align_pack({&call, 1}, {})->front()));
    }
    for (const std::int32_t budget : {64, 4096}) {
      std::vector<at::Tensor> packed;
      const auto packs = align_pack(trajectories, {.max_tokens = budget}).value();
      for (const PackedBatch& pack : packs) {
        if (!pack.response_index.empty()) packed.push_back(values_of(pack));
      }
      CAPTURE(trunk, budget);
      CHECK(at::equal(at::cat(packed), at::cat(alone)));
    }
  }
}

TEST_CASE("a critic of another shape or kind is refused", "[critic][error]") {
  const TemporaryFolder folder("critic_bad");
  auto critic = Critic::create({.trunk = "shared", .feature_size = 16}).value();
  REQUIRE(Critic::create({.trunk = "shared", .feature_size = 8}).value().save(folder.path()));

  CHECK(critic.load(folder.path()).error().code == ErrorCode::shape_mismatch);
  CHECK(critic.load(folder.path() / "absent").error().code == ErrorCode::not_found);
  CHECK(Critic::create({.trunk = "both", .feature_size = 16}).error().code == ErrorCode::invalid_argument);
  CHECK(Critic::create({.trunk = "shared"}).error().code == ErrorCode::invalid_argument);
  CHECK(Critic::create({.trunk = "own", .model_folder = folder.path() / "absent"}).error().code ==
        ErrorCode::not_found);
}

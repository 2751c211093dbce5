// AP-5: a pack gives every invocation what it gives alone, whatever shares the pack with it.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "policies/model/checkpoint.hpp"
#include "policies/model/critic.hpp"
#include "policies/model/initialization.hpp"
#include "policies/model/packed_tensors.hpp"
#include "policies/model/transformer.hpp"
#include "runtime/alignpack/align_pack.hpp"
#include "runtime/base/random.hpp"
#include "tests/unit/runtime/alignpack/random_trajectories.hpp"

namespace memopd {
namespace {

constexpr std::int32_t kVocabulary = 11;

ModelConfig grouped_tied() {
  ModelConfig config;
  config.vocab_size = kVocabulary;
  config.hidden_size = 16;
  config.intermediate_size = 24;
  config.num_hidden_layers = 3;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 8;
  config.max_position_embeddings = 512;
  return config;
}

ModelConfig multi_head_untied() {
  ModelConfig config = grouped_tied();
  config.architecture = "llama";
  config.num_attention_heads = 2;
  config.num_key_value_heads = 2;
  config.head_dim = 6;
  config.attention_bias = false;
  config.tie_word_embeddings = false;
  return config;
}

/// Adds noise to every parameter: biases, norms and value heads start where mistakes would not show.
void disturb(const std::vector<NamedTensor>& parameters, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  SplitMix random(seed);
  for (const NamedTensor& parameter : parameters) {
    at::Tensor flat = parameter.tensor.view({-1});
    for (std::int64_t i = 0; i < flat.size(0); ++i) {
      flat[i].add_(0.1 * random.normal());
    }
  }
}

struct Models {
  Transformer student;
  Critic critic;
};

/// fp32 weights, so that the same ones can be had in both types.
Models make_models(const ModelConfig& config, at::ScalarType dtype, const std::string& trunk) {
  Transformer student = *random_transformer(config, {.seed = 3});
  disturb(student.parameters(), 4);
  const auto folder = std::filesystem::path(MEMOPD_BINARY_DIR) / ("packed_equivalence_" + config.architecture);
  REQUIRE(save_transformer(folder, student));
  Critic critic =
      *Critic::create({.trunk = trunk, .model_folder = folder, .feature_size = config.hidden_size, .seed = 5}, dtype);
  disturb(critic.parameters(), 6);
  Transformer loaded = *load_transformer(folder, dtype);
  loaded.set_requires_grad(true);
  return {std::move(loaded), std::move(critic)};
}

/// Per response token in input order, and gradients of a random linear functional of both.
struct Outcome {
  at::Tensor log_probs;
  at::Tensor values;
  std::vector<at::Tensor> gradients;  ///< the student's parameters first, then the critic's
  std::size_t num_student_parameters = 0;
};

Outcome run(const Models& models, const std::vector<PackedBatch>& packs) {
  std::vector<at::Tensor> parameters, log_probs, values, sums;
  for (const auto* part : {&models.student.parameters(), &models.critic.parameters()}) {
    for (const NamedTensor& parameter : *part) {
      parameters.push_back(parameter.tensor);
      sums.push_back(at::zeros_like(parameter.tensor));
    }
  }
  SplitMix random(9);
  for (const PackedBatch& pack : packs) {
    const PackedTensors tensors = *to_tensors(pack);
    if (pack.num_response_tokens() == 0) {
      continue;
    }
    const at::Tensor rows_RD = models.student.hidden(tensors).index_select(0, tensors.response_index);
    const at::Tensor log_probs_RV = at::log_softmax(models.student.logits(rows_RD), -1);
    log_probs.push_back(log_probs_RV.gather(1, tensors.response_token_ids.unsqueeze(1)).squeeze(1));
    values.push_back(models.critic.values(tensors, rows_RD));
    at::Tensor weights_2R = at::zeros_like(log_probs.back()).repeat({2, 1});
    for (std::int64_t r = 0; r < weights_2R.size(1); ++r) {
      weights_2R[0][r].fill_(random.normal());
      weights_2R[1][r].fill_(0.5 + random.uniform());  // one sign: the gradient of the value bias is their sum
    }
    const auto gradients = torch::autograd::grad({log_probs.back(), values.back()}, parameters,
                                                 {weights_2R[0], weights_2R[1]}, std::nullopt, false, true);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (gradients[i].defined()) {
        sums[i].add_(gradients[i]);
      }
    }
  }
  return {at::cat(log_probs).detach(), at::cat(values).detach(), sums, models.student.parameters().size()};
}

/// The oracle: every call alone, unpadded, positions from 0.
std::vector<PackedBatch> one_by_one(const std::vector<Trajectory>& trajectories) {
  std::vector<PackedBatch> packs;
  for (const Invocation* call : testing::invocations_of(trajectories)) {
    packs.push_back(align_pack({&call, 1}, {})->front());
    const testing::Ints& positions = packs.back().position_ids;
    CHECK((positions.front() == 0 && positions.size() == testing::sequence_of(*call).size() &&
           std::is_sorted(positions.begin(), positions.end())));
  }
  return packs;
}

void check_equal(const Outcome& found, const Outcome& wanted, double tolerance) {
  CHECK(found.log_probs.sub(wanted.log_probs).abs().max().item<double>() <= tolerance);
  CHECK(found.values.sub(wanted.values).abs().max().item<double>() <= tolerance);
  for (std::size_t i = 0; i < wanted.gradients.size(); ++i) {
    CAPTURE(i);
    const double norm = wanted.gradients[i].norm().item<double>();
    CHECK((norm > 0 || i >= wanted.num_student_parameters));  // an own trunk's untied head takes no part
    CHECK(found.gradients[i].sub(wanted.gradients[i]).norm().item<double>() <= tolerance * norm);
  }
}

void check_layouts(const ModelConfig& config, at::ScalarType dtype, const std::string& trunk, double tolerance) {
  const Models models = make_models(config, dtype, trunk);
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const auto trajectories = testing::random_trajectories(
        seed, 4, {.vocab_size = seed == 0 ? 3 : kVocabulary, .min_calls = 1, .max_calls = 8, .max_run = 12});
    const Outcome alone = run(models, one_by_one(trajectories));
    for (const AlignPackOptions& options :
         {AlignPackOptions{.max_tokens = 4096}, AlignPackOptions{.max_tokens = 4096, .share_prefixes = false},
          AlignPackOptions{.max_tokens = 4096, .min_shared_tokens = 4}, AlignPackOptions{.max_tokens = 256},
          AlignPackOptions{.max_tokens = 64}}) {
      CAPTURE(config.architecture, seed, options.max_tokens, options.share_prefixes, options.min_shared_tokens);
      check_equal(run(models, *align_pack(trajectories, options)), alone, tolerance);
    }
  }
}

}  // namespace

TEST_CASE("packs give log-probs, values and gradients of the calls alone in fp64",
          "[model][AP-5][pain:T09][pain:T10]") {
  check_layouts(grouped_tied(), at::kDouble, "shared", 1e-10);
  check_layouts(multi_head_untied(), at::kDouble, "own", 1e-10);
}

TEST_CASE("packs give log-probs, values and gradients of the calls alone in fp32", "[model][AP-5][pain:T10]") {
  check_layouts(grouped_tied(), at::kFloat, "own", 1e-5);
  check_layouts(multi_head_untied(), at::kFloat, "shared", 1e-5);
}

TEST_CASE("a flat history gives call 1 the log-probs of its own state and call 2 others", "[model][AP-5]") {
  // The comparisons above can fail: the layout that AlignPack exists to avoid is told apart, and from call 2 on only.
  const Models models = make_models(grouped_tied(), at::kDouble, "shared");
  const auto log_probs = [&](const testing::Ints& prompt, const testing::Ints& response) {
    const Trajectory one = testing::trajectory(0, {testing::invocation(prompt, response)});
    return run(models, *align_pack({&one, 1}, {})).log_probs;
  };
  // q = 1 2, a_0 = 3 4 5, o_0 = 6 7, a_1 = 8 9, o_1 = 10, a_2 = 0 1
  const Trajectory example = testing::trajectory(
      0, {testing::invocation({1, 2}, {3, 4, 5}), testing::invocation({1, 2, 3, 4, 5, 6, 7}, {8, 9}),
          testing::invocation({1, 2, 8, 9, 10}, {0, 1})});
  const at::Tensor aligned = run(models, *align_pack({&example, 1}, {})).log_probs;

  const at::Tensor flat_1 = log_probs({1, 2, 3, 4, 5, 6, 7}, {8, 9});
  const at::Tensor flat_2 = log_probs({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {0, 1});

  CHECK(aligned.narrow(0, 3, 2).sub(flat_1).abs().max().item<double>() <= 1e-10);
  CHECK(aligned.narrow(0, 5, 2).sub(flat_2).abs().min().item<double>() > 1e-4);
}

}  // namespace memopd

#include "policies/training/log_prob_scorer.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/log_softmax.h>

#include <catch2/catch.hpp>

#include "policies/model/checkpoint.hpp"
#include "tests/unit/policies/model/tiny_models.hpp"

using namespace memopd;
using namespace memopd::testing;

namespace {

constexpr std::int32_t kSupport = 20;  // of 24 ids

const std::vector<Invocation> kCalls = {invocation({5, 6}, {7, 8, 9}), invocation({5, 6, 7}, {4, 4})};

/// [R, V] over the support, by the tensor library.
at::Tensor log_softmax(const Transformer& model, const PackedBatch& pack, double temperature) {
  const auto tensors = to_tensors(pack).value();
  const at::Tensor rows = model.hidden(tensors).index_select(0, tensors.response_index);
  return at::log_softmax(model.logits(rows).narrow(1, 0, kSupport) / temperature, 1);
}

}  // namespace

TEST_CASE("log-probs are the full softmax over the support at the sampling temperature", "[training][pain:T12]") {
  const TemporaryFolder folder("log_probs");
  const Transformer model = tiny_model();
  REQUIRE(save_transformer(folder.path(), model));
  const auto scorer = LogProbScorer::load(folder.path(), kSupport).value();
  const PackedBatch pack = pack_of(kCalls);
  for (const double temperature : {0.0, 0.5, 1.0}) {
    const auto found = scorer->log_probs(pack, temperature);
    REQUIRE(found);
    const at::Tensor expected = log_softmax(model, pack, temperature == 0 ? 1 : temperature);
    REQUIRE(found->size() == 5);
    for (std::size_t row = 0; row < found->size(); ++row) {
      const auto id = static_cast<std::int64_t>(pack.response_token_ids[row]);
      const auto r = static_cast<std::int64_t>(row);
      CHECK((*found)[row] == Approx(expected.select(0, r).select(0, id).item<float>()).margin(1e-5));
    }
  }
}

TEST_CASE("the divergence is the KL between teacher and policy, zero from itself", "[training][pain:T32]") {
  const TemporaryFolder student_folder("divergence_student");
  const TemporaryFolder teacher_folder("divergence_teacher");
  const Transformer student = tiny_model();
  const Transformer teacher = tiny_model(memopd::testing::tiny_config(), 8);
  REQUIRE(save_transformer(student_folder.path(), student));
  REQUIRE(save_transformer(teacher_folder.path(), teacher));
  const auto policy = LogProbScorer::load(student_folder.path(), kSupport).value();
  const auto frozen = LogProbScorer::load(teacher_folder.path(), kSupport).value();
  const PackedBatch pack = pack_of(kCalls);

  const auto found = policy->divergences(pack, *frozen, {.temperature = 2});
  const auto none = policy->divergences(pack, *policy, {});

  REQUIRE(found);
  REQUIRE(none);
  const at::Tensor p = log_softmax(teacher, pack, 2);
  const at::Tensor q = log_softmax(student, pack, 2);
  const at::Tensor expected = (p.exp() * (p - q)).sum(1);
  for (std::size_t row = 0; row < found->size(); ++row) {
    CHECK((*found)[row] == Approx(expected.select(0, static_cast<std::int64_t>(row)).item<float>()).margin(1e-5));
    CHECK((*found)[row] > 1e-4);
    CHECK(std::abs((*none)[row]) < 1e-6);
  }
}

TEST_CASE("ids outside the vocabulary or the support are refused", "[training][error]") {
  const TemporaryFolder folder("log_probs_ids");
  REQUIRE(save_transformer(folder.path(), tiny_model()));
  const auto scorer = LogProbScorer::load(folder.path(), kSupport).value();
  const auto response = scorer->log_probs(pack_of({invocation({5}, {20})}), 1);
  REQUIRE_FALSE(response);
  CHECK(response.error().message == "response: found id 20, allowed below 20");
  const auto prompt = scorer->log_probs(pack_of({invocation({24}, {3})}), 1);
  REQUIRE_FALSE(prompt);
  CHECK(prompt.error().message == "pack: found id 24, allowed below 24");
  CHECK_FALSE(scorer->log_probs(pack_of(kCalls), -1));
  CHECK_FALSE(LogProbScorer::load(folder.path(), 25));
  const auto other = LogProbScorer::load(folder.path(), 0).value();
  CHECK_FALSE(scorer->divergences(pack_of(kCalls), *other, {}));
}

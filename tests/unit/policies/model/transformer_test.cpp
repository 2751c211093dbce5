#include "policies/model/transformer.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/log_softmax.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "tests/unit/policies/model/tiny_models.hpp"

using namespace memopd;
using namespace memopd::testing;

namespace {

at::Tensor hidden_of(const Transformer& model, const PackedBatch& pack) {
  return model.hidden(to_tensors(pack).value());
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

/// Sum of the log-probs of all response tokens of `pack`, and its gradient for every parameter.
std::vector<at::Tensor> log_prob_gradients(const Transformer& model, const PackedBatch& pack) {
  const auto tensors = to_tensors(pack).value();
  const at::Tensor rows = model.hidden(tensors).index_select(0, tensors.response_index);
  const at::Tensor log_probs = at::log_softmax(model.logits(rows), 1);
  const at::Tensor sum = log_probs.gather(1, tensors.response_token_ids.unsqueeze(1)).sum();
  std::vector<at::Tensor> leaves;
  for (const NamedTensor& parameter : model.parameters()) leaves.push_back(parameter.tensor);
  return torch::autograd::grad({sum}, leaves);
}

/// Three calls with rewritten memory: call 1 continues call 0, call 2 does not.
const std::vector<Invocation> kCalls = {invocation({5, 6}, {7, 8, 9}), invocation({5, 6, 7, 8, 9, 3, 4}, {10, 11}),
                                        invocation({5, 6, 10, 11, 12}, {13, 14})};

}  // namespace

TEST_CASE("a packed call has the hidden states of the call alone, prefixes shared or not", "[transformer][AP-5]") {
  const std::string architecture = GENERATE("qwen2", "qwen3");
  const Transformer model = tiny_model(tiny_config(architecture), 3, at::kDouble);
  for (const bool is_shared : {true, false}) {
    const auto packed = to_tensors(pack_of(kCalls, is_shared)).value();
    const at::Tensor rows = model.hidden(packed).index_select(0, packed.response_index);
    std::int64_t begin = 0;
    for (const Invocation& call : kCalls) {
      const auto alone = to_tensors(pack_of({call})).value();
      const at::Tensor expected = model.hidden(alone).index_select(0, alone.response_index);
      CHECK(largest_difference(rows.narrow(0, begin, expected.size(0)), expected) < 1e-10);
      begin += expected.size(0);
    }
  }
}

TEST_CASE("packed gradients are the sum of the gradients of the calls alone", "[transformer][AP-5]") {
  Transformer model = tiny_model(tiny_config(), 3, at::kDouble);
  model.set_requires_grad(true);
  const auto packed = log_prob_gradients(model, pack_of(kCalls));
  std::vector<std::vector<at::Tensor>> alone;
  for (const Invocation& call : kCalls) alone.push_back(log_prob_gradients(model, pack_of({call})));

  for (std::size_t i = 0; i < packed.size(); ++i) {
    INFO(model.parameters()[i].name);
    const at::Tensor sum = alone[0][i] + alone[1][i] + alone[2][i];
    CHECK(largest_difference(packed[i], sum) <= 1e-10 * sum.norm().item<double>() + 1e-14);
  }
}

TEST_CASE("changing another call leaves a call's hidden states unchanged", "[transformer][AP-3][pain:T08]") {
  const Transformer model = tiny_model();
  auto calls = kCalls;
  const auto first = hidden_of(model, pack_of(calls, /*share_prefixes=*/false));
  calls[0] = invocation({1, 2}, {1, 2, 3});  // the same number of rows: the others stay where they are
  const auto changed = hidden_of(model, pack_of(calls, /*share_prefixes=*/false));

  CHECK(largest_difference(first.narrow(0, 0, 5), changed.narrow(0, 0, 5)) > 0.1);
  CHECK(largest_difference(first.narrow(0, 5, 16), changed.narrow(0, 5, 16)) == 0.0);
}

TEST_CASE("gradients agree with finite differences for every kind of parameter", "[transformer]") {
  for (const std::string architecture : {"qwen2", "qwen3", "llama"}) {
    Transformer model = tiny_model(tiny_config(architecture, architecture == "qwen2"), 8, at::kDouble);
    model.set_requires_grad(true);
    const PackedBatch pack = pack_of(kCalls);
    const auto gradients = log_prob_gradients(model, pack);
    const auto value = [&] {
      const at::NoGradGuard no_grad;
      const auto tensors = to_tensors(pack).value();
      const at::Tensor rows = model.hidden(tensors).index_select(0, tensors.response_index);
      return at::log_softmax(model.logits(rows), 1)
          .gather(1, tensors.response_token_ids.unsqueeze(1))
          .sum()
          .item<double>();
    };
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      INFO(architecture << " " << model.parameters()[i].name);
      at::Tensor flat = model.parameters()[i].tensor.detach().view(-1);
      const std::int64_t place = flat.numel() / 3;
      const double kept = flat[place].item<double>();
      const double step = 1e-5;  // error of a central difference: about step^2 plus 1e-14 / step
      flat[place].fill_(kept + step);
      const double above = value();
      flat[place].fill_(kept - step);
      const double below = value();
      flat[place].fill_(kept);
      CHECK(gradients[i].reshape(-1)[place].item<double>() ==
            Approx((above - below) / (2 * step)).epsilon(1e-6).margin(1e-7));
    }
  }
}

TEST_CASE("row-exact: logits of a call have equal bits alone and in any pack, while gradients are recorded too",
          "[transformer][RL-7][pain:T10]") {
  Transformer model = tiny_model(wide_config(GENERATE("qwen2", "qwen3")));
  model.set_row_exact(true);
  const auto logits_of = [&model](const PackedBatch& pack) {
    const auto tensors = to_tensors(pack).value();
    return model.logits(model.hidden(tensors).index_select(0, tensors.response_index)).detach();
  };
  for (const bool is_recorded : {false, true}) {
    model.set_requires_grad(is_recorded);
    const at::Tensor packed = logits_of(pack_of(kCalls)), unshared = logits_of(pack_of(kCalls, false));
    std::int64_t begin = 0;
    for (const Invocation& call : kCalls) {
      const at::Tensor alone = logits_of(pack_of({call}));
      CHECK(at::equal(packed.narrow(0, begin, alone.size(0)), alone));
      CHECK(at::equal(unshared.narrow(0, begin, alone.size(0)), alone));
      begin += alone.size(0);
    }
  }
  CHECK(model.clone().is_row_exact());
}

TEST_CASE("row-exact gradients are the ordinary ones", "[transformer]") {
  Transformer model = tiny_model(tiny_config("qwen3"), 3, at::kDouble);
  model.set_requires_grad(true);
  const auto expected = log_prob_gradients(model, pack_of(kCalls));
  model.set_row_exact(true);
  const auto found = log_prob_gradients(model, pack_of(kCalls));

  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO(model.parameters()[i].name);
    CHECK(largest_difference(found[i], expected[i]) <= 1e-12 * expected[i].norm().item<double>() + 1e-14);
  }
}

TEST_CASE("threads share a transformer and get the gradients of one thread", "[transformer]") {
  Transformer model = tiny_model();
  model.set_requires_grad(true);
  const PackedBatch pack = pack_of(kCalls);
  const auto expected = log_prob_gradients(model, pack);
  std::vector<std::vector<at::Tensor>> found(3);
  std::vector<std::thread> threads;
  for (auto& result : found) threads.emplace_back([&] { result = log_prob_gradients(model, pack); });
  for (std::thread& thread : threads) thread.join();

  for (const auto& gradients : found) {
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(at::equal(gradients[i], expected[i]));
  }
}

TEST_CASE("a fused tensor is sliced into its Hugging Face parts", "[transformer]") {
  const Transformer model = tiny_model();
  const auto slices = model.named_slices();
  const auto specs = tensor_specs(model.config());

  REQUIRE(slices.size() == specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    CHECK(slices[i].name == specs[i].name);
    CHECK(slices[i].tensor.sizes() == at::IntArrayRef(specs[i].shape));
  }
  const at::Tensor& qkv = model.layers()[1].qkv_weight;  // 4 query heads and 2 key/value heads of 4: 16 + 8 + 8 rows
  for (const NamedTensor& slice : slices) {
    if (slice.name == "model.layers.1.self_attn.v_proj.weight") CHECK(at::equal(slice.tensor, qkv.narrow(0, 24, 8)));
  }
}

TEST_CASE("a clone has its own storage", "[transformer]") {
  const Transformer model = tiny_model();
  const Transformer copy = model.clone();
  copy.embedding().fill_(0.0);

  CHECK(model.embedding().abs().max().item<double>() > 0.0);
  CHECK(model.head_weight().is_same(model.embedding()));
}

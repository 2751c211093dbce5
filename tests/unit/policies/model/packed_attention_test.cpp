#include "policies/model/packed_attention.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "runtime/alignpack/align_pack.hpp"
#include "runtime/alignpack/dense_mask.hpp"
#include "tests/unit/runtime/alignpack/random_trajectories.hpp"

namespace memopd {
namespace {

struct Shape {
  std::int64_t num_heads;
  std::int64_t num_kv_heads;
  std::int64_t head_dim;
};

struct Inputs {
  at::Tensor q, k, v;
};

PackedBatch random_pack(std::uint64_t seed, std::int32_t max_run, bool share_prefixes = true) {
  const auto trajectories = testing::random_trajectories(seed, 2, {.min_calls = 3, .max_calls = 4, .max_run = max_run});
  return align_pack(trajectories, {.max_tokens = 1 << 20, .share_prefixes = share_prefixes})->front();
}

Inputs random_inputs(std::int64_t num_tokens, const Shape& shape, std::uint64_t seed, at::ScalarType type) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  const auto draw = [&](std::int64_t heads) {
    return at::randn({num_tokens, heads, shape.head_dim}, generator, at::TensorOptions(at::kDouble)).to(type);
  };
  return {draw(shape.num_heads), draw(shape.num_kv_heads), draw(shape.num_kv_heads)};
}

Inputs leaves(const Inputs& inputs) {
  const auto leaf = [](const at::Tensor& x) { return x.detach().clone().requires_grad_(true); };
  return {leaf(inputs.q), leaf(inputs.k), leaf(inputs.v)};
}

/// The definition: softmax(scale q k^T + mask) v with the [T, T] mask of the layout.
at::Tensor dense_attention(const Inputs& inputs, const PackedBatch& pack, double scale) {
  const std::vector<std::uint8_t> mask = dense_mask(pack);
  std::vector<double> bias(mask.size());
  std::transform(mask.begin(), mask.end(), bias.begin(),
                 [](std::uint8_t sees) { return sees != 0 ? 0.0 : -std::numeric_limits<double>::infinity(); });
  const std::int64_t num_tokens = pack.num_tokens();
  const at::Tensor bias_TT = at::tensor(bias, inputs.q.options().requires_grad(false)).view({num_tokens, num_tokens});
  const std::int64_t group = inputs.q.size(1) / inputs.k.size(1);
  const at::Tensor q_HTD = inputs.q.transpose(0, 1);
  const at::Tensor k_HTD = inputs.k.repeat_interleave(group, 1).transpose(0, 1);
  const at::Tensor v_HTD = inputs.v.repeat_interleave(group, 1).transpose(0, 1);
  const at::Tensor scores_HTT = at::matmul(q_HTD, k_HTD.transpose(1, 2)).mul(scale).add(bias_TT);
  return at::matmul(at::softmax(scores_HTT, -1), v_HTD).transpose(0, 1);
}

double max_abs(const at::Tensor& x) { return x.abs().max().item<double>(); }

bool same_bits(const at::Tensor& a, const at::Tensor& b, std::int64_t row) {
  const auto size = static_cast<std::size_t>(a.stride(0));
  const auto offset = static_cast<std::size_t>(row) * size;
  return std::memcmp(a.const_data_ptr<float>() + offset, b.const_data_ptr<float>() + offset, size * sizeof(float)) == 0;
}

PackedTensors tensors_of(const PackedBatch& pack) { return *to_tensors(pack); }

std::vector<at::Tensor> gradients(const at::Tensor& out, const Inputs& inputs, const at::Tensor& weights) {
  return torch::autograd::grad({out}, {inputs.q, inputs.k, inputs.v}, {weights});
}

const Shape kShapes[] = {{4, 4, 24}, {4, 2, 16}, {6, 1, 8}, {2, 2, 6}, {1, 1, 64}, {3, 3, 1}};

}  // namespace

TEST_CASE("packed_attention and its gradients equal the dense formula in fp64", "[model][AP-3][AP-5]") {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    // Runs of up to 30 ids give segments of several blocks.
    const PackedBatch pack = random_pack(seed, seed == 0 ? 30 : 6, seed != 2);
    for (const Shape& shape : kShapes) {
      for (const AttentionPath path : {AttentionPath::automatic, AttentionPath::portable}) {
        CAPTURE(seed, shape.num_heads, shape.num_kv_heads, shape.head_dim, static_cast<int>(path));
        const Inputs inputs = leaves(random_inputs(pack.num_tokens(), shape, seed, at::kDouble));
        const at::Tensor weights = random_inputs(pack.num_tokens(), shape, seed + 100, at::kDouble).q;

        const at::Tensor out = packed_attention(inputs.q, inputs.k, inputs.v, tensors_of(pack), 0.3, path);
        const at::Tensor expected = dense_attention(inputs, pack, 0.3);

        CHECK(max_abs(out.sub(expected)) < 1e-12);
        const auto found = gradients(out, inputs, weights);
        const auto wanted = gradients(expected, inputs, weights);
        for (std::size_t i = 0; i < 3; ++i) {
          CHECK(max_abs(found[i].sub(wanted[i])) < 1e-12);
        }
      }
    }
  }
}

TEST_CASE("packed_attention in fp32 is within 1e-5 of fp64", "[model][AP-5]") {
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    const PackedBatch pack = random_pack(seed, seed == 0 ? 20 : 6);
    for (const Shape& shape : kShapes) {
      for (const AttentionPath path : {AttentionPath::automatic, AttentionPath::portable}) {
        CAPTURE(seed, shape.head_dim, static_cast<int>(path));
        const Inputs exact = leaves(random_inputs(pack.num_tokens(), shape, seed, at::kDouble));
        const Inputs rounded = leaves(random_inputs(pack.num_tokens(), shape, seed, at::kFloat));
        const at::Tensor weights = random_inputs(pack.num_tokens(), shape, seed + 100, at::kDouble).q;

        const at::Tensor out = packed_attention(rounded.q, rounded.k, rounded.v, tensors_of(pack), 0.2, path);
        const at::Tensor expected = dense_attention(exact, pack, 0.2);

        CHECK(max_abs(out.to(at::kDouble).sub(expected)) < 1e-5);
        const auto found = gradients(out, rounded, weights.to(at::kFloat));
        const auto wanted = gradients(expected, exact, weights);
        for (std::size_t i = 0; i < 3; ++i) {
          CHECK(found[i].to(at::kDouble).sub(wanted[i]).norm().item<double>() < 1e-5 * wanted[i].norm().item<double>());
        }
      }
    }
  }
}

TEST_CASE("packed_attention gives the same bits to rows that do not see a changed row, even when it turns NaN",
          "[model][AP-3][pain:T08]") {
  const PackedBatch pack = random_pack(3, 9);
  const std::vector<std::uint8_t> mask = dense_mask(pack);
  const Inputs before = random_inputs(pack.num_tokens(), {4, 2, 24}, 1, at::kFloat);
  const PackedTensors tensors = tensors_of(pack);
  for (const AttentionPath path : {AttentionPath::automatic, AttentionPath::portable}) {
    const at::Tensor reference = packed_attention(before.q, before.k, before.v, tensors, 0.2, path);
    for (std::int64_t changed = 0; changed < pack.num_tokens(); ++changed) {
      Inputs after{before.q.clone(), before.k.clone(), before.v.clone()};
      for (const at::Tensor& x : {after.q, after.k, after.v}) {
        x[changed].fill_(changed % 2 == 0 ? std::numeric_limits<float>::quiet_NaN() : 7.0F);
      }
      const at::Tensor out = packed_attention(after.q, after.k, after.v, tensors, 0.2, path);
      for (std::int64_t row = 0; row < pack.num_tokens(); ++row) {
        const bool sees = mask[static_cast<std::size_t>(row * pack.num_tokens() + changed)] != 0;
        CAPTURE(changed, row, sees);
        CHECK(same_bits(out, reference, row) == !sees);
      }
    }
  }
}

TEST_CASE("packed_attention gives a state the same bits in a shared, an unshared and a lone pack",
          "[model][AP-3][AP-5][pain:T10]") {
  const auto trajectories = testing::random_trajectories(11, 2, {.min_calls = 3, .max_calls = 4, .max_run = 30});
  const PackedBatch shared = align_pack(trajectories, {.max_tokens = 1 << 20})->front();
  const Inputs inputs = random_inputs(shared.num_tokens(), {4, 2, 24}, 5, at::kFloat);
  const at::Tensor out = packed_attention(inputs.q, inputs.k, inputs.v, tensors_of(shared), 0.2);
  const std::vector<std::uint8_t> mask = dense_mask(shared);
  std::map<testing::Ints, std::int64_t> row_of_state;
  for (std::int64_t row = 0; row < shared.num_tokens(); ++row) {
    testing::Ints state;
    for (std::int64_t seen = 0; seen <= row; ++seen) {  // rows of a chain are in position order
      if (mask[static_cast<std::size_t>(row * shared.num_tokens() + seen)] != 0) {
        state.push_back(shared.input_ids[static_cast<std::size_t>(seen)]);
      }
    }
    row_of_state[state] = row;
  }
  for (const Invocation* call : testing::invocations_of(trajectories)) {
    const PackedBatch alone = align_pack({&call, 1}, {})->front();
    const testing::Ints ids = testing::sequence_of(*call);
    std::vector<std::int64_t> rows;
    for (std::size_t size = 1; size <= ids.size(); ++size) {
      rows.push_back(row_of_state.at({ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(size)}));
    }
    const at::Tensor index = at::tensor(rows, at::kLong);

    const at::Tensor out_alone = packed_attention(inputs.q.index_select(0, index), inputs.k.index_select(0, index),
                                                  inputs.v.index_select(0, index), tensors_of(alone), 0.2);

    CHECK(at::equal(out_alone, out.index_select(0, index)));
  }
}

TEST_CASE("packed_attention and its gradients have the same bits on one thread and on two", "[model][AP-3]") {
  const PackedBatch pack = random_pack(4, 60);
  const PackedTensors tensors = tensors_of(pack);
  const Inputs inputs = leaves(random_inputs(pack.num_tokens(), {4, 2, 24}, 2, at::kFloat));
  const int num_threads = at::get_num_threads();
  const auto run = [&](int threads) {
    at::set_num_threads(threads);
    const at::Tensor out = packed_attention(inputs.q, inputs.k, inputs.v, tensors, 0.2);
    auto results = gradients(out, inputs, inputs.q.detach());
    results.push_back(out.detach());
    return results;
  };
  const auto one = run(1);
  const auto two = run(2);
  at::set_num_threads(num_threads);

  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(at::equal(one[i], two[i]));
  }
}

TEST_CASE("packed_attention without grad mode has the bits of the recorded pass", "[model]") {
  const PackedBatch pack = random_pack(6, 12);
  const Inputs inputs = leaves(random_inputs(pack.num_tokens(), {4, 4, 24}, 3, at::kFloat));
  const at::Tensor recorded = packed_attention(inputs.q, inputs.k, inputs.v, tensors_of(pack), 0.2);

  const at::NoGradGuard no_grad;
  const at::Tensor plain = packed_attention(inputs.q, inputs.k, inputs.v, tensors_of(pack), 0.2);

  CHECK(recorded.requires_grad());
  CHECK_FALSE(plain.requires_grad());
  CHECK(at::equal(recorded.detach(), plain));
}

TEST_CASE("packed_attention reads slices of a fused projection where they lie", "[model]") {
  const PackedBatch pack = random_pack(7, 12);
  const at::Tensor fused = random_inputs(pack.num_tokens(), {8, 1, 16}, 4, at::kFloat).q;  // 4 q, 2 k, 2 v heads
  const at::Tensor q = fused.narrow(1, 0, 4), k = fused.narrow(1, 4, 2), v = fused.narrow(1, 6, 2);

  const at::Tensor out = packed_attention(q, k, v, tensors_of(pack), 0.25);

  CHECK(at::equal(out, packed_attention(q.contiguous(), k.contiguous(), v.contiguous(), tensors_of(pack), 0.25)));
  const at::Tensor q_strided = q.transpose(1, 2).contiguous().transpose(1, 2);  // head dimension not contiguous
  CHECK(at::equal(out, packed_attention(q_strided, k, v, tensors_of(pack), 0.25)));
}

TEST_CASE("packed_attention ignores a segment without rows", "[model]") {
  PackedBatch pack = random_pack(8, 6);
  const Inputs inputs = random_inputs(pack.num_tokens(), {2, 2, 8}, 5, at::kDouble);
  const at::Tensor before = packed_attention(inputs.q, inputs.k, inputs.v, tensors_of(pack), 0.3);
  pack.cu_seqlens_q.insert(pack.cu_seqlens_q.begin() + 1, pack.cu_seqlens_q[1]);
  pack.cu_seqlens_k.insert(pack.cu_seqlens_k.begin() + 1, pack.cu_seqlens_k[1]);

  CHECK(at::equal(before, packed_attention(inputs.q, inputs.k, inputs.v, tensors_of(pack), 0.3)));
}

TEST_CASE("packed_attention stays exact where scores are far apart", "[model]") {
  const PackedBatch pack = random_pack(9, 12);
  const Inputs inputs = random_inputs(pack.num_tokens(), {2, 2, 16}, 6, at::kDouble);
  const Inputs rounded{inputs.q.to(at::kFloat), inputs.k.to(at::kFloat), inputs.v.to(at::kFloat)};
  const Inputs exact{rounded.q.to(at::kDouble), rounded.k.to(at::kDouble), rounded.v.to(at::kDouble)};

  const at::Tensor out = packed_attention(rounded.q, rounded.k, rounded.v, tensors_of(pack), 100.0);

  // Scores reach a thousand and carry an fp32 rounding of 1e-4; two near-equal scores turn it into that much weight.
  CHECK(max_abs(out.to(at::kDouble).sub(dense_attention(exact, pack, 100.0))) < 2e-3);
}

TEST_CASE("packed_attention refuses to be differentiated twice", "[model][error]") {
  const PackedBatch pack = random_pack(10, 6);
  const Inputs inputs = leaves(random_inputs(pack.num_tokens(), {2, 2, 8}, 7, at::kDouble));
  const at::Tensor out = packed_attention(inputs.q, inputs.k, inputs.v, tensors_of(pack), 0.3);

  CHECK_THROWS_WITH(torch::autograd::grad({out.sum()}, {inputs.q}, {}, std::nullopt, /*create_graph=*/true),
                    Catch::Contains("first derivatives only"));
}

}  // namespace memopd

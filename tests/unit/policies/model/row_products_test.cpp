#include "policies/model/row_products.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>
#include <limits>

using namespace memopd;

namespace {

at::Tensor random(at::IntArrayRef shape, std::uint64_t seed, at::ScalarType type = at::kFloat) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::TensorOptions(type));
}

/// Inputs and outputs of the products of small decoders: qkv, output, gate and up, down, head; one output; odd sizes.
constexpr std::int64_t kShapes[][2] = {{96, 288}, {96, 96}, {96, 480}, {240, 96}, {96, 4096}, {96, 1}, {17, 33}};

}  // namespace

TEST_CASE("a row-exact product gives a row the same bits however many rows there are and wherever it stands",
          "[row_products][RL-7][pain:T10]") {
  for (const auto& [num_inputs, num_outputs] : kShapes) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
      const at::Tensor x = random({200, num_inputs}, 1, type);
      const at::Tensor weight = random({num_outputs, num_inputs}, 2, type);
      const at::Tensor all = multiply_rows(x, weight, true);
      for (const std::int64_t count : {1, 2, 3, 7, 16, 31, 63, 64, 65, 100, 128, 199}) {
        for (const std::int64_t begin : {std::int64_t{0}, std::int64_t{1}, 200 - count}) {
          CAPTURE(num_inputs, num_outputs, count, begin);
          if (begin + count > 200) continue;
          const at::Tensor some = multiply_rows(x.narrow(0, begin, count), weight, true);
          CHECK(at::equal(some, all.narrow(0, begin, count)));
        }
      }
    }
  }
}

TEST_CASE("a row-exact product does not depend on where its buffers begin", "[row_products][RL-7]") {
  const at::Tensor x = random({70, 96}, 1), weight = random({288, 96}, 2);
  const at::Tensor expected = multiply_rows(x, weight, true);
  const auto shifted = [](const at::Tensor& tensor) {  // 4 bytes off
    const at::Tensor memory = at::empty({tensor.numel() + 1}, tensor.options());
    return memory.narrow(0, 1, tensor.numel()).view(tensor.sizes()).copy_(tensor);
  };
  at::Tensor out = shifted(expected).zero_();
  multiply_rows_out(out, shifted(x), shifted(weight), true);

  CHECK(at::equal(out, expected));
}

TEST_CASE("neighbours that are not finite do not reach a row", "[row_products][RL-7]") {
  at::Tensor x = random({10, 96}, 1);
  const at::Tensor weight = random({288, 96}, 2);
  const at::Tensor expected = multiply_rows(x, weight, true).narrow(0, 0, 9);
  x.select(0, 9).fill_(std::numeric_limits<double>::quiet_NaN());

  CHECK(at::equal(multiply_rows(x, weight, true).narrow(0, 0, 9), expected));
}

TEST_CASE("row-exact products and their gradients are those of the tensor library", "[row_products]") {
  for (const std::int64_t num_rows : {0, 1, 64, 130}) {
    const at::Tensor y = random({num_rows, 33}, 4, at::kDouble), d = random({num_rows, 33}, 5, at::kDouble);
    const at::Tensor x = random({num_rows, 17}, 1, at::kDouble).requires_grad_(true);
    const at::Tensor weight = random({33, 17}, 2, at::kDouble).requires_grad_(true);
    const auto gradients = [&](const at::Tensor& out) { return torch::autograd::grad({out}, {x, weight}, {d}); };
    const at::Tensor product = multiply_rows(x, weight, true), sum = add_product(y, x, weight, true);

    CHECK(product.sub(at::mm(x, weight.t())).abs().sum().item<double>() < 1e-11);
    CHECK(sum.sub(add_product(y, x, weight, false)).abs().sum().item<double>() < 1e-11);
    const auto found = gradients(sum), expected = gradients(at::mm(x, weight.t()));
    for (std::size_t i = 0; i < 2; ++i) CHECK(found[i].sub(expected[i]).abs().sum().item<double>() < 1e-11);
  }
}

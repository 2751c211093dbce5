#include "policies/training/adamw.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace memopd {

TEST_CASE("the first AdamW step moves every parameter by the learning rate against its gradient", "[adamw]") {
  at::Tensor parameter = at::full({3}, 1.0, at::kDouble);
  AdamW optimizer({parameter}, {.beta1 = 0.9, .beta2 = 0.98});
  at::Tensor gradient = optimizer.make_gradient();
  optimizer.accumulate(gradient, {at::full({3}, -7.0, at::kDouble)});

  optimizer.step(gradient, 0.01, 1.0);

  CHECK(parameter[1].item<double>() == Approx(1.01).epsilon(1e-8));
}

TEST_CASE("an undefined gradient counts as zero and leaves its parameter alone", "[adamw]") {
  at::Tensor first = at::ones({2}, at::kFloat);
  at::Tensor second = at::ones({2}, at::kFloat);
  AdamW optimizer({first, second}, {});
  at::Tensor gradient = optimizer.make_gradient();
  optimizer.accumulate(gradient, {at::Tensor(), at::ones({2}, at::kFloat)});

  optimizer.step(gradient, 0.1, 1.0);

  CHECK(first[0].item<float>() == 1.0F);
  CHECK(second[0].item<float>() == Approx(0.9F));
}

TEST_CASE("weight decay shrinks a parameter without gradient by lr times wd", "[adamw]") {
  at::Tensor parameter = at::full({2}, 2.0, at::kDouble);
  AdamW optimizer({parameter}, {.weight_decay = 0.5});
  optimizer.step(optimizer.make_gradient(), 0.1, 1.0);
  CHECK(parameter[0].item<double>() == Approx(2.0 * 0.95).epsilon(1e-12));
}

TEST_CASE("the gradient norm is not finite iff an element is not", "[adamw]") {
  at::Tensor gradient = at::full({3}, 2.0, at::kFloat);
  CHECK(gradient_norm(gradient) == Approx(std::sqrt(12.0)));
  gradient[1] = std::numeric_limits<float>::infinity();
  CHECK_FALSE(std::isfinite(gradient_norm(gradient)));
  gradient[1] = std::numeric_limits<float>::quiet_NaN();
  CHECK_FALSE(std::isfinite(gradient_norm(gradient)));
}

TEST_CASE("clipping scales long gradients to the bound and leaves short ones", "[adamw]") {
  CHECK(clip_factor(0.5, 1.0) == 1.0);
  CHECK(clip_factor(4.0, 1.0) == Approx(0.25).epsilon(1e-5));
}

TEST_CASE("restored moments of another length are refused", "[adamw][error]") {
  AdamW optimizer({at::ones({2}, at::kDouble)}, {});
  const auto restored = optimizer.restore(at::ones({3}, at::kDouble), at::ones({3}, at::kDouble), 4);
  REQUIRE_FALSE(restored);
  CHECK(restored.error().code == ErrorCode::shape_mismatch);
  CHECK(optimizer.num_updates() == 0);
}

}  // namespace memopd

#include "policies/model/row_kernels.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "runtime/base/random.hpp"

using namespace memopd;

namespace {

std::vector<double> normals(std::size_t n, std::uint64_t seed) {
  SplitMix random(seed);
  std::vector<double> values(n);
  for (double& value : values) value = random.normal();
  return values;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

TEST_CASE("rms_norm_rows divides by the root mean square", "[row_kernels]") {
  const std::vector<double> x = {3, 4, 0, 0};  // mean square 6.25
  const std::vector<double> weight = {1, 2, 1, 1};
  std::vector<double> y(4);
  double inverse = 0;

  rms_norm_rows<double>(x.data(), weight.data(), 0.0, 1, 4, y.data(), &inverse);

  CHECK(inverse == Approx(0.4));
  CHECK(y[0] == Approx(1.2));
  CHECK(y[1] == Approx(3.2));
}

TEST_CASE("the gradient of rms_norm_rows is its finite difference", "[row_kernels]") {
  const std::int64_t m = 3, d = 19;  // a width that is no multiple of the vector lanes
  auto x = normals(57, 1);
  const auto weight = normals(19, 2), dy = normals(57, 3);
  std::vector<double> y(57), inverse(3), dx(57), dweight(19);
  rms_norm_rows<double>(x.data(), weight.data(), 1e-6, m, d, y.data(), inverse.data());
  rms_norm_rows_backward<double>(dy.data(), x.data(), weight.data(), inverse.data(), m, d, dx.data(), dweight.data());

  const double step = 1e-6;  // central difference: error O(step^2) + 1e-16 / step
  for (const std::size_t i : {0u, 18u, 40u}) {
    std::vector<double> up(57), down(57);
    const double kept = x[i];
    x[i] = kept + step;
    rms_norm_rows<double>(x.data(), weight.data(), 1e-6, m, d, up.data(), nullptr);
    x[i] = kept - step;
    rms_norm_rows<double>(x.data(), weight.data(), 1e-6, m, d, down.data(), nullptr);
    x[i] = kept;
    CHECK(dx[i] == Approx((dot(up, dy) - dot(down, dy)) / (2 * step)).epsilon(1e-7).margin(1e-8));
  }
  // y is linear in the weight: sum dweight * weight = sum dy * y.
  CHECK(dot(dweight, weight) == Approx(dot(dy, y)));
}

TEST_CASE("rms_norm_heads norms each head on its own and leaves the rest of the row", "[row_kernels]") {
  // One row of stride 5: two heads of size 2 and a value that stays.
  std::vector<double> x = {3, 3, -1, 7, 9};
  const std::vector<double> weight = {1, 2};

  rms_norm_heads<double>(x.data(), 5, weight.data(), 0.0, 1, 2, 2, x.data(), nullptr);

  CHECK_THAT(x, Catch::Approx(std::vector<double>{1, 2, -0.2, 2.8, 9}));  // root mean squares 3 and 5
}

TEST_CASE("the gradient of rms_norm_heads is its finite difference", "[row_kernels]") {
  const std::int64_t m = 2, h = 2, dh = 19, stride = 41;  // a head no multiple of the vector lanes, three values after
  auto x = normals(82, 1);
  const auto weight = normals(19, 2), dy = normals(82, 3);
  std::vector<double> y(82), inverse(4), dweight(19), dx = dy;
  rms_norm_heads<double>(x.data(), stride, weight.data(), 1e-6, m, h, dh, y.data(), inverse.data());
  rms_norm_heads_backward<double>(dx.data(), x.data(), stride, weight.data(), inverse.data(), m, h, dh, dweight.data());

  const double step = 1e-6;  // central difference: error O(step^2) + 1e-16 / step
  for (const std::size_t i : {0u, 18u, 19u, 41u, 78u}) {
    std::vector<double> up(82), down(82);
    const double kept = x[i];
    x[i] = kept + step;
    rms_norm_heads<double>(x.data(), stride, weight.data(), 1e-6, m, h, dh, up.data(), nullptr);
    x[i] = kept - step;
    rms_norm_heads<double>(x.data(), stride, weight.data(), 1e-6, m, h, dh, down.data(), nullptr);
    x[i] = kept;
    CHECK(dx[i] == Approx((dot(up, dy) - dot(down, dy)) / (2 * step)).epsilon(1e-7).margin(1e-8));
  }
  CHECK(dx[38] == dy[38]);  // behind the heads
  // y is linear in the weight: sum dweight * weight = sum dy * y over the heads.
  CHECK(dot(dweight, weight) == Approx(dot(dy, y)));
}

TEST_CASE("rotate_rows turns each pair by its row's angle, and back", "[row_kernels]") {
  // One row of stride 6: two heads of size 2 and a value that stays.
  std::vector<double> x = {1, 0, 0, 1, 5, 6};
  const std::vector<double> quarter = {0, 1};  // cos, sin of 90 degrees

  rotate_rows<double>(x.data(), 6, quarter.data(), 1, 2, 2, 1.0);
  CHECK(x == std::vector<double>{0, 1, -1, 0, 5, 6});
  rotate_rows<double>(x.data(), 6, quarter.data(), 1, 2, 2, -1.0);
  CHECK(x == std::vector<double>{1, 0, 0, 1, 5, 6});
}

TEST_CASE("the gradient of swiglu_rows is its finite difference", "[row_kernels]") {
  const std::int64_t f = 5;
  auto gate_up = normals(20, 4);
  const auto dy = normals(10, 5);
  std::vector<double> gradient(20);
  swiglu_rows_backward<double>(dy.data(), gate_up.data(), 2, f, gradient.data());

  const double step = 1e-6;
  for (std::size_t i = 0; i < gate_up.size(); ++i) {
    std::vector<double> up(10), down(10);
    const double kept = gate_up[i];
    gate_up[i] = kept + step;
    swiglu_rows<double>(gate_up.data(), 2, f, up.data());
    gate_up[i] = kept - step;
    swiglu_rows<double>(gate_up.data(), 2, f, down.data());
    gate_up[i] = kept;
    CHECK(gradient[i] == Approx((dot(up, dy) - dot(down, dy)) / (2 * step)).epsilon(1e-7).margin(1e-8));
  }
}

TEST_CASE("the float exponential is that of the standard library within 3e-7", "[row_kernels]") {
  std::vector<float> x, y;
  for (float value = -86.0f; value <= 0.0f; value += 0.0137f) x.push_back(value);
  y.resize(x.size());
  double sum = 0;
  double worst = 0;

  const double total = exp_row(x.data(), 0.0f, 1.0f, static_cast<std::int64_t>(x.size()), y.data());

  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    worst = std::max(worst, std::abs(static_cast<double>(y[i]) - exact) / exact);
    sum += exact;
  }
  CHECK(worst < 3e-7);
  CHECK(total == Approx(sum).epsilon(3e-7));
}

TEST_CASE("swiglu_rows keeps NaN and saturates without overflow", "[row_kernels]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> gate_up = {nan, -200.0f, 200.0f, /*up*/ 1.0f, 1.0f, 1.0f};
  std::vector<float> y(3);

  swiglu_rows<float>(gate_up.data(), 1, 3, y.data());

  CHECK(std::isnan(y[0]));
  CHECK(std::abs(y[1]) < 1e-30f);
  CHECK(y[2] == 200.0f);
}

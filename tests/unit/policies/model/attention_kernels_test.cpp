#include "policies/model/attention_kernels.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace memopd::detail {
namespace {

/// exp of every value through the softmax kernel with a shift of 0: one key per row of lanes, all visible.
std::vector<float> exp_by_kernel(std::vector<float> values, bool portable) {
  const std::ptrdiff_t lanes = kLanes<float>;
  values.resize((values.size() + 7) / 8 * 8, 0.0F);
  const auto num_keys = static_cast<std::ptrdiff_t>(values.size()) / lanes;
  std::vector<float> shift(static_cast<std::size_t>(lanes), 0.0F);
  attention_kernels<float>(portable).softmax({values.data(), num_keys, num_keys, lanes, shift.data(), nullptr, false});
  return values;
}

}  // namespace

TEST_CASE("softmax's exp is within 2 ulp of std::exp over the normal range", "[model]") {
  std::vector<float> values;
  for (double x = 0; x > -87.0; x -= 0.000977) {
    values.push_back(static_cast<float>(x));
  }
  for (const bool portable : {false, true}) {
    const std::vector<float> results = exp_by_kernel(values, portable);
    double worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double exact = std::exp(static_cast<double>(values[i]));
      const double ulp =
          static_cast<double>(std::nextafter(static_cast<float>(exact), 2.0F)) - static_cast<float>(exact);
      worst = std::max(worst, std::abs(static_cast<double>(results[i]) - exact) / ulp);
    }
    CHECK(worst < 2.0);
  }
}

TEST_CASE("softmax's exp is 0 far below, 1 at 0, and NaN for NaN", "[model]") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const bool portable : {false, true}) {
    const auto results = exp_by_kernel({0.0F, -90.0F, -1e30F, -infinity, std::nanf("")}, portable);
    CHECK(results[0] == 1.0F);
    CHECK(results[1] == 0.0F);
    CHECK(results[2] == 0.0F);
    CHECK(results[3] == 0.0F);
    CHECK(std::isnan(results[4]));
  }
}

TEMPLATE_TEST_CASE("mix adds each row over its own range, whatever the number of rows", "[model][AP-3]", float,
                   double) {
  // weights = 1, in[l] = 2^l in every column: the sum spells out which l were taken.
  const std::ptrdiff_t width = kLanes<TestType>;
  const std::ptrdiff_t num_in = 12;
  std::vector<TestType> in(static_cast<std::size_t>(num_in * width));
  for (std::size_t i = 0; i < in.size(); ++i) {
    in[i] = static_cast<TestType>(1 << (i / static_cast<std::size_t>(width)));
  }
  std::vector<std::int32_t> index(static_cast<std::size_t>(num_in));
  std::iota(index.begin(), index.end(), 0);
  const std::vector<TestType> weights(static_cast<std::size_t>(num_in * num_in), TestType{1});
  for (const bool portable : {false, true}) {
    for (std::ptrdiff_t num_rows = 1; num_rows <= 11; ++num_rows) {
      std::vector<TestType> out(static_cast<std::size_t>(num_rows * width), TestType{4096});
      attention_kernels<TestType>(portable).mix({weights.data(), num_in, 1, num_rows, /*begin_offset=*/3,
                                                 /*end_offset=*/5, num_in, in.data(), width, index.data(), out.data(),
                                                 width, index.data(), width, /*adds=*/true});
      for (std::ptrdiff_t row = 0; row < num_rows; ++row) {
        const std::ptrdiff_t begin = std::max<std::ptrdiff_t>(0, row - 3);
        const std::ptrdiff_t end = std::min(num_in, row + 6);
        CAPTURE(portable, num_rows, row);
        CHECK(out[static_cast<std::size_t>(row * width)] == static_cast<TestType>(4096 + (1 << end) - (1 << begin)));
      }
    }
  }
}

}  // namespace memopd::detail

#include "policies/model/attention_kernels.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "runtime/base/random.hpp"

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

TEST_CASE("row is softmax attention over its keys", "[model]") {
  // Two channels, key stride 4 of which 3 keys are used; the fourth is NaN and must not be read.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> query = {1, 0};
  const std::vector<float> keys = {0, std::log(2.0F), std::log(5.0F), nan, 9, 9, 9, nan};
  const std::vector<float> values = {8, 0, 16, 0, 32, 8, nan, nan};
  for (const bool portable : {false, true}) {
    std::vector<float> scores(8), out(2);
    attention_kernels<float>(portable).row(
        {query.data(), keys.data(), 4, values.data(), 3, 2, scores.data(), out.data()});
    CHECK(out[0] == Approx((8 + 2 * 16 + 5 * 32) / 8.0F));  // weights 1/8, 2/8, 5/8
    CHECK(out[1] == Approx(5.0F));
  }
}

TEMPLATE_TEST_CASE("row has the bits of scores, softmax and mix of a block of rows", "[model][RL-7]", float, double) {
  using T = TestType;
  SplitMix random(4);
  const auto draw = [&random](std::ptrdiff_t size) {
    std::vector<T> values(static_cast<std::size_t>(size));
    for (T& value : values) value = static_cast<T>(random.normal());
    return values;
  };
  for (const bool portable : {false, true}) {
    const AttentionKernels<T>& kernels = attention_kernels<T>(portable);
    for (const std::ptrdiff_t depth : {kLanes<T>, 3 * kLanes<T>, 4 * kLanes<T>}) {
      for (const std::ptrdiff_t num_keys : {1, 2, 7, 8, 9, 31, 32, 40, 129}) {
        const std::ptrdiff_t stride = num_keys + 3, lanes = kLanes<T>, padded = (num_keys + lanes - 1) / lanes * lanes;
        const auto keys = draw(num_keys * depth), values = draw(num_keys * depth), query = draw(depth);
        std::vector<T> columns(static_cast<std::size_t>(depth * lanes), T{0.5});  // lane 0 is the query
        std::vector<T> transposed(static_cast<std::size_t>(depth * stride));
        for (std::ptrdiff_t d = 0; d < depth; ++d) {
          columns[static_cast<std::size_t>(d * lanes)] = query[static_cast<std::size_t>(d)];
          for (std::ptrdiff_t j = 0; j < num_keys; ++j) {
            transposed[static_cast<std::size_t>(d * stride + j)] = keys[static_cast<std::size_t>(j * depth + d)];
          }
        }
        std::vector<std::int32_t> index(static_cast<std::size_t>(num_keys));
        std::iota(index.begin(), index.end(), 0);
        std::vector<T> scores(static_cast<std::size_t>(num_keys * lanes)), shift(8), sum(8), expected(columns.size());
        kernels.scores(
            {keys.data(), depth, index.data(), num_keys, num_keys - 1, columns.data(), depth, lanes, scores.data()});
        kernels.softmax({scores.data(), num_keys, num_keys - 1, lanes, shift.data(), sum.data(), true});
        kernels.mix({scores.data(), 1, lanes, 1, 1, num_keys - 1, num_keys, values.data(), depth, index.data(),
                     expected.data(), depth, index.data(), depth, false});
        std::vector<T> scratch(static_cast<std::size_t>(padded)), out(static_cast<std::size_t>(depth));
        kernels.row(
            {query.data(), transposed.data(), stride, values.data(), num_keys, depth, scratch.data(), out.data()});
        CAPTURE(portable, depth, num_keys);
        const T factor = T{1} / sum[0];
        for (std::size_t d = 0; d < out.size(); ++d) CHECK(out[d] == expected[d] * factor);
      }
    }
  }
}

}  // namespace memopd::detail

#include "runtime/base/random.hpp"

#include <catch2/catch.hpp>
#include <cmath>

using namespace memopd;
using Words = std::array<std::uint32_t, 4>;

TEST_CASE("philox gives the known answers of Random123 for philox4x32-10", "[base][RL-7]") {
  CHECK(philox(0, 0, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox(~0ULL, ~0ULL, ~0ULL) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox(0x299f31d0a4093822ULL, 0x85a308d3243f6a88ULL, 0x0370734413198a2eULL) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("splitmix64 gives the published sequence of seed 1234567", "[base]") {
  SplitMix random(1234567);
  CHECK(random() == 6457827717110365317ULL);
  CHECK(random() == 3203168211198807973ULL);
  CHECK(random() == 9817491932198370423ULL);
  static_assert(splitmix64(0) == 0xE220A8397B1DCDAFULL);
}

TEST_CASE("a chained seed depends on the order and the value of its parts", "[base]") {
  CHECK(chain_seed(1, {2, 3}) != chain_seed(1, {3, 2}));
  CHECK(chain_seed(1, {2, 3}) != chain_seed(2, {2, 3}));
  CHECK(chain_seed(1, {0}) != chain_seed(1, {0, 0}));
  CHECK(chain_seed(1, {2, 3}) == chain_seed(chain_seed(1, {2}), {3}));
}

TEST_CASE("hash_name is FNV-1a", "[base]") {
  static_assert(hash_name("") == 0xcbf29ce484222325ULL);
  static_assert(hash_name("a") == 0xaf63dc4c8601ec8cULL);
  static_assert(hash_name("foobar") == 0x85944171f73967e8ULL);
}

TEST_CASE("philox_uniform is in [0, 1), evenly spread, and another number for another token", "[base][RL-7]") {
  constexpr int kCount = 20000;
  double sum = 0;
  double sum_of_squares = 0;
  for (std::uint64_t token = 0; token < kCount; ++token) {
    const double value = philox_uniform(7, token);
    REQUIRE(value >= 0.0);
    REQUIRE(value < 1.0);
    sum += value;
    sum_of_squares += value * value;
  }
  // five standard errors of the mean of a uniform: 5 * sqrt(1/12/20000) = 0.0102; of its square: 5 * sqrt(4/45/20000) = 0.0105
  CHECK(sum / kCount == Approx(0.5).margin(0.0103));
  CHECK(sum_of_squares / kCount == Approx(1.0 / 3).margin(0.0106));
  CHECK(philox_uniform(7, 1, 0) != philox_uniform(7, 1, 1));
  CHECK(philox_uniform(7, 1) != philox_uniform(8, 1));
}

TEST_CASE("below stays below its bound and reaches both ends", "[base]") {
  SplitMix random(3);
  bool saw_first = false;
  bool saw_last = false;
  for (int i = 0; i < 1000; ++i) {
    const auto value = random.below(5);
    REQUIRE(value < 5);
    saw_first = saw_first || value == 0;
    saw_last = saw_last || value == 4;
  }
  CHECK(saw_first);
  CHECK(saw_last);
}

TEST_CASE("normal has mean 0 and variance 1", "[base]") {
  constexpr int kCount = 20000;
  SplitMix random(11);
  double sum = 0;
  double sum_of_squares = 0;
  for (int i = 0; i < kCount; ++i) {
    const double value = random.normal();
    sum += value;
    sum_of_squares += value * value;
  }
  // five standard errors: 5 / sqrt(20000) = 0.0354 and 5 * sqrt(2 / 20000) = 0.05
  CHECK(sum / kCount == Approx(0.0).margin(0.0354));
  CHECK(sum_of_squares / kCount == Approx(1.0).margin(0.05));
}

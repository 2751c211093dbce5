#include "runtime/base/random.hpp"

#include <cmath>
#include <numbers>

namespace memopd {

std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter_low, std::uint64_t counter_high) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53ULL;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57ULL;
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  std::array<std::uint32_t, 4> c = {
      static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
      static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = kMultiplier0 * c[0];
    const std::uint64_t p1 = kMultiplier1 * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return c;
}

double philox_uniform(std::uint64_t seed, std::uint64_t counter, std::uint64_t index) {
  const auto words = philox(seed, counter, index);
  const std::uint64_t bits = (static_cast<std::uint64_t>(words[0]) << 32) | words[1];
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

double SplitMix::normal() {
  const double u = 1.0 - uniform();
  const double v = uniform();
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

}  // namespace memopd

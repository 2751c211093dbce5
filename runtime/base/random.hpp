// Seeded randomness that depends on names, never on order: splitmix64 chains for seeds, Philox for noise.
//
// Sources: splitmix64, Steele, Lea and Flood (2014); Philox4x32-10, Salmon et al. (2011).
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace memopd {

/// One splitmix64 output for the state `x`.
[[nodiscard]] constexpr std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

/// Folds `parts` into `seed`, in order: chain(s, {a, b}) != chain(s, {b, a}).
[[nodiscard]] constexpr std::uint64_t chain_seed(std::uint64_t seed, std::initializer_list<std::uint64_t> parts) {
  for (const std::uint64_t part : parts) {
    seed = splitmix64(seed ^ splitmix64(part));
  }
  return seed;
}

/// FNV-1a of `text`, for the names in a chain.
[[nodiscard]] constexpr std::uint64_t hash_name(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  }
  return hash;
}

/// Philox4x32-10: four 32-bit words from a 64-bit key and a 128-bit counter.
[[nodiscard]] std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter_low,
                                                  std::uint64_t counter_high);

/// Uniform in [0, 1) with 53 bits: word `index` of the stream named by (`seed`, `counter`).
[[nodiscard]] double philox_uniform(std::uint64_t seed, std::uint64_t counter, std::uint64_t index = 0);

/// Sequential generator over splitmix64; a UniformRandomBitGenerator. Not thread-safe.
class SplitMix {
 public:
  using result_type = std::uint64_t;
  explicit SplitMix(std::uint64_t seed) : state_(seed) {}
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }
  result_type operator()() {
    const std::uint64_t result = splitmix64(state_);
    state_ += 0x9E3779B97F4A7C15ULL;
    return result;
  }
  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }
  /// Uniform in [0, bound); bound >= 1. Bias below 2^-32 for bound < 2^32.
  std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>((*this)()) * bound) >> 64);
  }
  /// Standard normal (Box-Muller, one of the pair).
  double normal();

 private:
  std::uint64_t state_;
};

}  // namespace memopd

// Random damage to bytes, for the hidden tests `[.fuzz]`: a minute each, from a seed that is printed (tools/fuzz).
//
// MEMOPD_FUZZ_SEED=N starts elsewhere, MEMOPD_FUZZ_SECONDS=N takes longer or shorter.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "runtime/base/random.hpp"

namespace memopd::testing {

/// Bits flipped, stretches cut out, doubled or exchanged, lengths made huge.
inline std::string damage(std::string bytes, SplitMix& random) {
  for (std::uint64_t left = 1 + random.below(4); left > 0; --left) {
    if (bytes.empty()) {
      return bytes;
    }
    const std::size_t place = random.below(bytes.size());
    const std::size_t size = std::min<std::size_t>(bytes.size() - place, 1 + random.below(32));
    switch (random.below(6)) {
      case 0:
        bytes[place] = static_cast<char>(bytes[place] ^ (1 << random.below(8)));
        break;
      case 1:
        bytes[place] = static_cast<char>(random.below(256));
        break;
      case 2:
        bytes.erase(place, size);
        break;
      case 3:
        bytes.insert(place, bytes.substr(place, size));
        break;
      case 4:
        bytes.resize(place);
        break;
      default:  // what a length or a count may look like
        for (std::size_t i = 0; i < std::min<std::size_t>(size, 8); ++i) {
          bytes[place + i] = static_cast<char>(random.below(3) == 0 ? 0x7F : 0xFF);
        }
    }
  }
  return bytes;
}

/// Calls `probe(SplitMix&)` again and again until the time is over. @return how often
template <class Probe>
std::int64_t fuzz(const char* what, Probe probe) {
  const char* const seed_text = std::getenv("MEMOPD_FUZZ_SEED");
  const char* const seconds_text = std::getenv("MEMOPD_FUZZ_SECONDS");
  const std::uint64_t seed = seed_text != nullptr ? std::strtoull(seed_text, nullptr, 10) : 1;
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::seconds(seconds_text != nullptr ? std::strtol(seconds_text, nullptr, 10) : 60);
  std::int64_t count = 0;
  for (; std::chrono::steady_clock::now() < end; ++count) {
    SplitMix random(chain_seed(seed, {static_cast<std::uint64_t>(count)}));
    probe(random);
  }
  std::printf("%s: %lld inputs from seed %llu\n", what, static_cast<long long>(count),
              static_cast<unsigned long long>(seed));
  return count;
}

}  // namespace memopd::testing

// Values of object tests that parent and child make alike.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "runtime/base/random.hpp"
#include "runtime/data/tensor.hpp"

namespace memopd::testing {

/// Bytes that depend on their place and on `seed`.
[[nodiscard]] inline std::vector<std::byte> pattern(std::size_t size, std::uint64_t seed) {
  std::vector<std::byte> bytes(size);
  SplitMix random(seed);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(random());
  }
  return bytes;
}

[[nodiscard]] inline std::uint64_t sum(std::span<const std::byte> bytes) {
  std::uint64_t total = 0;
  for (const std::byte byte : bytes) {
    total += static_cast<std::uint64_t>(byte);
  }
  return total;
}

/// A quiet NaN with a payload, a signalling one, both infinities, the smallest denormal, a negative zero.
inline constexpr std::uint32_t kHardFloats[] = {0x7fc12345, 0xffa00001, 0x7f800000, 0xff800000, 0x00000001, 0x80000000};

[[nodiscard]] inline std::vector<std::byte> hard_bytes() {
  std::vector<std::byte> bytes(sizeof kHardFloats);
  std::memcpy(bytes.data(), kHardFloats, sizeof kHardFloats);
  return bytes;
}

/// Two tensors; hard floats in the first.
[[nodiscard]] inline WeightSet weights(std::uint64_t seed) {
  WeightSet set{3, static_cast<std::int64_t>(seed), {}};
  set.tensors.push_back({"hard", DType::float32, {6}, hard_bytes()});
  set.tensors.push_back({"noise", DType::bfloat16, {16, 4}, pattern(128, seed)});
  return set;
}

}  // namespace memopd::testing

// Every layout as a plain matrix: who sees whom. The oracle that packed attention and packing are tested against.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/data/packed_batch.hpp"

namespace memopd {

/// @param pack  as align_pack made it, or validated
/// @return  [T, T] row-major, element [i, j] = 1 iff row i sees row j (itself included), else 0
/// Pure and thread-safe. O(T^2) memory: for tests and small packs.
[[nodiscard]] std::vector<std::uint8_t> dense_mask(const PackedBatch& pack);

}  // namespace memopd

// What a pack must satisfy before anything indexes with it: for packs that peers send.
//
// Checked: sizes agree; cu_seqlens start at 0, never fall, end at T and K; every index is in range; the last n_q rows
// that a segment sees are its own, the others stand before it (parents precede children); positions rise along them,
// so nothing is seen twice or from the future; response ranges tile [0, R) in order; inside one invocation the row that
// predicts token r + 1 holds token r at the next position.
// Not checked: that ids are below a vocabulary size, and that a chain is one that align_pack would make.
#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/data/packed_batch.hpp"

namespace memopd {

/// @error invalid_argument  the first rule broken: object, found, allowed
/// Pure and thread-safe. O(T + K + R + I); allocates nothing on success.
Expected<void> validate(const PackedBatch& pack);

}  // namespace memopd

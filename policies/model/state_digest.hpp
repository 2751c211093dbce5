// The digest of a model state: which tokens, at which positions, seeing what, in which order (AP-6).
//
// Shapes  n = P + A tokens of an invocation; T rows, K visible rows, I invocations of a pack.
// AP-6 digest  XXH3-128 over rows 0 .. n-2 of (id i32, position i32, view u64), then the last id (i32), little endian.
//   view of a row = a hash that runs over the (id, position) of the rows it sees, in order, itself included:
//   view_0 = 0, view_{k+1} = XXH3-64 of (id, position) seeded with view_k.
// The last response token is predicted, never fed: it has an id only. Engine, teacher and learner compute the digest from
// what each really feeds; two are equal iff the ids, positions and views of the rows are, whatever the layout.
// In the aligned state row i sees rows 0 .. i. All zero = not computed.
// Torch-free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/data/invocation.hpp"
#include "runtime/data/packed_batch.hpp"

namespace memopd {

struct PackedTensors;

/// A row as the digest takes it.
struct DigestRow {
  std::int32_t id = 0;
  std::int32_t position = 0;
  std::uint64_t view = 0;

  friend bool operator==(const DigestRow&, const DigestRow&) = default;
};

/// The view after one more visible row.
[[nodiscard]] std::uint64_t extend_view(std::uint64_t view, std::int32_t id, std::int32_t position);

/// Of rows in the order in which the last of them sees them.
[[nodiscard]] Digest digest_of(std::span<const DigestRow> rows, std::int32_t last_id);

/// Of one aligned sequence, row by row as it is fed. Not thread-safe; 16 bytes a row.
class StateDigest {
 public:
  void append(std::int32_t id, std::int32_t position);
  [[nodiscard]] std::size_t num_rows() const { return rows_.size(); }
  /// Of the rows so far and the token that they predict, which is not fed. May be called at any time, repeatedly.
  [[nodiscard]] Digest finish(std::int32_t last_id) const { return digest_of(rows_, last_id); }

 private:
  std::vector<DigestRow> rows_;
};

/// [I] of a pack as it was sent. Rows of an invocation = what the row that predicts its last response token sees.
/// Without response tokens: all zero. `pack` has passed validate(), or is a packer's. Thread-safe. O(K + R).
[[nodiscard]] std::vector<Digest> pack_digests(const PackedBatch& pack);

/// The same from what the model reads: ids, positions and plan of `tensors` (CPU), so that a token that was misplaced on
/// the way there shows. Only the response ranges are read from `invocations`; they lie in the pack's R.
[[nodiscard]] std::vector<Digest> pack_digests(const PackedTensors& tensors,
                                               std::span<const PackedInvocation> invocations);

}  // namespace memopd

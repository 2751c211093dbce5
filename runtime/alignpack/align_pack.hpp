// AlignPack rebuilds the model state of every invocation and packs it for one forward pass.
//
// Shapes  T unique tokens in a pack, S segments, R response tokens, K visible rows over all segments, I invocations;
//         an invocation has P prompt and A response tokens and occupies P + A rows, which it may share.
// AP-1 identity   ids of an invocation are prompt ++ response as given and sampled, never re-tokenized.
// AP-2 position   position = index in the invocation's prompt ++ response.
// AP-3 isolation  a row sees the earlier rows of its own invocation only: its chain, then its own segment, causally.
// AP-4 credit     response_index addresses exactly the rows that predict response tokens: a_j[0] is predicted by the
//                 last prompt row, wherever that row stands.
//
// Sharing is exact because every invocation starts at position 0: two invocations with a common id prefix have the same
// state over it. With min_shared_tokens = 1, T is the number of distinct id prefixes among the invocations of a pack.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/data/invocation.hpp"
#include "runtime/data/packed_batch.hpp"
#include "runtime/data/trajectory.hpp"

namespace memopd {

struct AlignPackOptions {
  std::int32_t max_tokens = 4096;      ///< budget of one pack in unique tokens; >= 1
  bool share_prefixes = true;          ///< false: one segment per invocation
  std::int32_t min_shared_tokens = 1;  ///< >= 1; a common run of fewer tokens is copied instead of shared
};

/// Packs every invocation of `trajectories`, in order; none is split across packs. A pack is closed by the first
/// invocation that does not fit; the table of every pack has its ids from the invocations themselves.
/// @return  packs with 1 <= T <= max_tokens each; empty iff there is no invocation
/// @error invocation_too_long  P + A > max_tokens; names the trajectory and the invocation
/// @error invalid_argument     an empty prompt or a negative id (named likewise), max_tokens or min_shared_tokens < 1
/// Pure and thread-safe. O(total tokens). Copies its input, retains nothing.
Expected<std::vector<PackedBatch>> align_pack(std::span<const Trajectory> trajectories,
                                              const AlignPackOptions& options);

/// The same for any set of invocations, e.g. as they arrive. No pointer may be null.
Expected<std::vector<PackedBatch>> align_pack(std::span<const Invocation* const> invocations,
                                              const AlignPackOptions& options);

}  // namespace memopd

// A Collective whose ranks live in different processes: payloads lie in the ObjectStore, the ranks meet at a RankMeeting.
//
// N elements, W ranks, a piece at a time of at most `max_piece_bytes`:
//   all_reduce      rank r sums slice r of the piece and gives it to all; 2 N (W - 1) / W elements leave each rank
//   reduce_scatter  rank r gets its part of everybody's values; N (W - 1) / W
//   all_gather, broadcast  what a rank has, to all
// A sum of at most kSmallBytes is computed by every rank from all values: one meeting instead of two.
//
// OC-1 order   every sum is values[0] + values[1] + .. by rank, whoever came first and wherever it was computed: the bits
//              are those of make_local_collective (RL-6)
// OC-2 memory  a rank has at most two pieces in the store; what it put is released after the next meeting, and with it
// OC-3 fence   objects and meetings carry the generation: a rank that was lost takes part in nothing later (CL-2)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/collective/collective.hpp"
#include "runtime/collective/rank_meeting.hpp"
#include "runtime/objects/object_store.hpp"

namespace memopd {

struct RankGroupOptions {
  std::int64_t generation = 0;                          ///< of the group; >= 0; each group of a run another
  std::int32_t rank = 0;                                ///< [0, num_ranks)
  std::int32_t num_ranks = 1;                           ///< >= 1
  std::size_t max_piece_bytes = std::size_t{64} << 20;  ///< >= 1; the same on every rank
};

/// What the ranks of a generation put; released by whoever ends it, for those that died.
[[nodiscard]] Scope scope_of_generation(std::int64_t generation);

/// @param objects  outlives the result
/// The deadline of an operation holds for each of its meetings.
/// @error (of its operations) beside Collective's: what the store says of an object that cannot be had
[[nodiscard]] std::shared_ptr<Collective> make_object_collective(ObjectStore& objects,
                                                                 std::shared_ptr<RankMeeting> meeting,
                                                                 const RankGroupOptions& options);

}  // namespace memopd

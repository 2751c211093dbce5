// The layouts that AlignPack is compared with: the calls of a trajectory flattened into one history, each id once.
//
//   rows  [q] [a_0] [o_0] [a_1] [o_1] .. [a_n]      positions 0, 1, 2, .. over the whole history
//
//   q    prompt of invocation 0
//   a_j  response of invocation j
//   o_j  what answered it: the observation spans of invocation j + 1's prompt, those after its last kept span
//
// persistent_history   causal over all earlier rows of the history.
// memory_mask          rows of a_j see q, r_{j-1}, o_{j-1} and a_j causally, where r_j is the part of a_j after
//                      `</think>`; rows of q and of o_j see themselves alone, causally. Source: MEM1 (arXiv 2506.15841).
//
// Only recorded ids are read (AP-1), and response_index is AP-4's: a_j[0] is predicted by the row before it, which under
// memory_mask sees o_{j-1} alone. AP-2 and AP-3 do not hold, which is what the controls are for: where kept(a_0) = a_0,
// calls 0 and 1 of a persistent history are as they were sampled and later ones are not; under memory_mask call 0 alone is.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/alignpack/align_pack.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/data/packed_batch.hpp"
#include "runtime/data/trajectory.hpp"

namespace memopd {

enum class HistoryState : std::uint8_t { persistent_history, memory_mask };

/// Index of the first response token after `</think>`, 0 .. A: where r_j begins in a_j. Text is the caller's matter.
using ReasoningEnd = std::function<std::int32_t(const Invocation&)>;

/// Rows of the history of `trajectory`.
[[nodiscard]] std::int64_t num_history_tokens(const Trajectory& trajectory);

/// Packs the histories of `trajectories`, in order; none is split, none shares a row. A pack is closed by the first that
/// does not fit. The table `invocations` has those with response tokens, in order; a trajectory without any is left out.
/// @param options.max_tokens   budget of one pack in rows; >= 1. The other options are not read
/// @param reasoning_end        for memory_mask; may be empty for persistent_history
/// @return  packs with 1 <= T <= max_tokens each, which pass validate()
/// @error invocation_too_long  a history of more than max_tokens rows; names the trajectory
/// @error invalid_argument     an empty first prompt, a negative id, a span outside its prompt, a reasoning end outside
///                             0 .. A (named), memory_mask without reasoning_end, max_tokens < 1
/// No pointer may be null. Pure and thread-safe as far as reasoning_end is. O(T + K). Copies its input, retains nothing.
Expected<std::vector<PackedBatch>> pack_histories(std::span<const Trajectory* const> trajectories, HistoryState state,
                                                  const AlignPackOptions& options,
                                                  const ReasoningEnd& reasoning_end = {});

}  // namespace memopd

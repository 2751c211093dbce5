// Many invocations in one forward pass: unique tokens, and for each segment the rows that its tokens see.
//
// Shapes  T unique tokens (= distinct id prefixes when shared), S segments, K visible rows over all segments,
//         R response tokens, I invocations.
// A segment is a run of consecutive rows that see the same chain: an invocation's own part, or a shared prefix.
// Row i of segment s sees kv rows kv_index[cu_seqlens_k[s] .. cu_seqlens_k[s+1]) causally, bottom-right aligned: the
// last n_q entries are the segment's own rows, and its i-th row sees all but the last n_q - 1 - i.
// A chain of any depth is legal. Parents precede children; invocations keep input order.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/data/invocation.hpp"
#include "runtime/data/trajectory_id.hpp"

namespace memopd {

/// Where one invocation's response rows stand in a pack.
struct PackedInvocation {
  TrajectoryId trajectory_id;
  std::int32_t attempt = 0;
  std::int32_t invocation_index = 0;
  std::int32_t response_begin = 0;  ///< into response_index and response_token_ids
  std::int32_t response_end = 0;
  Digest digest{};
};

struct PackedBatch {
  std::vector<std::int32_t> input_ids;       ///< [T]
  std::vector<std::int32_t> position_ids;    ///< [T] index in the invocation's prompt ++ response (AP-2)
  std::vector<std::int32_t> cu_seqlens_q;    ///< [S+1] segment s holds rows cu_seqlens_q[s] .. cu_seqlens_q[s+1]
  std::vector<std::int32_t> kv_index;        ///< [K] rows
  std::vector<std::int32_t> cu_seqlens_k;    ///< [S+1]
  std::vector<std::int32_t> response_index;  ///< [R] row whose logits predict response token r; rows may repeat (AP-4)
  std::vector<std::int32_t> response_token_ids;  ///< [R]
  std::vector<PackedInvocation> invocations;     ///< [I] in input order

  [[nodiscard]] std::int32_t num_tokens() const { return static_cast<std::int32_t>(input_ids.size()); }
  [[nodiscard]] std::int32_t num_segments() const { return static_cast<std::int32_t>(cu_seqlens_q.size()) - 1; }
  [[nodiscard]] std::int32_t num_response_tokens() const { return static_cast<std::int32_t>(response_index.size()); }
};

}  // namespace memopd

// A PackedBatch as the model reads it: tensors made once per pack and shared by every layer and every model.
//
// Shapes  T unique tokens, R response tokens, S segments, K visible rows over all segments.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/data/packed_batch.hpp"

namespace memopd {

/// Rows [q_begin, q_end) of one segment, which attend together; row i sees visible[0 .. num_visible - (q_end - 1 - i)).
struct AttentionBlock {
  std::int32_t q_begin = 0;
  std::int32_t q_end = 0;
  std::int32_t visible_begin = 0;  ///< into AttentionPlan::kv_index
  std::int32_t num_visible = 0;    ///< of the last row; the last q_end - q_begin of them are the block's own rows
};

/// Who sees whom, cut into blocks of at most kMaxBlockRows rows. Blocks are in row order and cover [0, T).
struct AttentionPlan {
  static constexpr std::int32_t kMaxBlockRows = 48;

  std::int32_t num_tokens = 0;         ///< T
  std::vector<std::int32_t> kv_index;  ///< [K] rows
  std::vector<AttentionBlock> blocks;
};

/// Copies are cheap: tensors and plan are shared. Immutable by convention; safe to read from many threads.
struct PackedTensors {
  at::Tensor input_ids;           ///< int64 [T], CPU
  at::Tensor position_ids;        ///< int64 [T]
  at::Tensor response_index;      ///< int64 [R] rows that predict response tokens; may repeat
  at::Tensor response_token_ids;  ///< int64 [R]
  std::shared_ptr<const AttentionPlan> plan;

  [[nodiscard]] std::int64_t num_tokens() const { return plan->num_tokens; }
};

/// Copies `pack`, which may be dropped afterwards.
/// @error invalid_argument  what validate() says; so nothing the kernels index with is out of range
/// Thread-safe. O(T + K + R).
Expected<PackedTensors> to_tensors(const PackedBatch& pack);

}  // namespace memopd

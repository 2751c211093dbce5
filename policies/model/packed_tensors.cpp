#include "policies/model/packed_tensors.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "runtime/alignpack/validate.hpp"

namespace memopd {
namespace {

at::Tensor to_tensor(const std::vector<std::int32_t>& values) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), tensor.mutable_data_ptr<std::int64_t>());
  return tensor;
}

/// Cuts a segment into blocks of nearly equal size, multiples of 8 rows but for the last.
void add_blocks(const PackedBatch& pack, std::size_t segment, std::vector<AttentionBlock>& blocks) {
  const std::int32_t begin = pack.cu_seqlens_q[segment];
  const std::int32_t end = pack.cu_seqlens_q[segment + 1];
  const std::int32_t visible_begin = pack.cu_seqlens_k[segment];
  const std::int32_t num_chain = pack.cu_seqlens_k[segment + 1] - visible_begin - (end - begin);
  if (begin == end) {
    return;
  }
  constexpr std::int32_t kMax = AttentionPlan::kMaxBlockRows;
  const std::int32_t num_blocks = (end - begin + kMax - 1) / kMax;
  const std::int32_t size = ((end - begin + num_blocks - 1) / num_blocks + 7) / 8 * 8;
  for (std::int32_t row = begin; row < end; row += size) {
    const std::int32_t row_end = std::min(row + size, end);
    blocks.push_back({row, row_end, visible_begin, num_chain + row_end - begin});
  }
}

}  // namespace

Expected<PackedTensors> to_tensors(const PackedBatch& pack) {
  MEMOPD_RETURN_IF_ERROR(validate(pack));
  auto plan = std::make_shared<AttentionPlan>();
  plan->num_tokens = pack.num_tokens();
  plan->kv_index = pack.kv_index;
  for (std::size_t segment = 0; segment + 1 < pack.cu_seqlens_q.size(); ++segment) {
    add_blocks(pack, segment, plan->blocks);
  }
  return PackedTensors{to_tensor(pack.input_ids), to_tensor(pack.position_ids), to_tensor(pack.response_index),
                       to_tensor(pack.response_token_ids), std::move(plan)};
}

}  // namespace memopd

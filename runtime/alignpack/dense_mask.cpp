#include "runtime/alignpack/dense_mask.hpp"

namespace memopd {

std::vector<std::uint8_t> dense_mask(const PackedBatch& pack) {
  const auto num_tokens = static_cast<std::size_t>(pack.num_tokens());
  std::vector<std::uint8_t> mask(num_tokens * num_tokens, 0);
  for (std::size_t segment = 0; segment + 1 < pack.cu_seqlens_q.size(); ++segment) {
    const auto q_begin = static_cast<std::size_t>(pack.cu_seqlens_q[segment]);
    const auto q_end = static_cast<std::size_t>(pack.cu_seqlens_q[segment + 1]);
    const auto k_begin = static_cast<std::size_t>(pack.cu_seqlens_k[segment]);
    const auto k_end = static_cast<std::size_t>(pack.cu_seqlens_k[segment + 1]);
    for (std::size_t row = q_begin; row < q_end; ++row) {
      const std::size_t visible_end = k_end - (q_end - 1 - row);
      for (std::size_t k = k_begin; k < visible_end; ++k) {
        mask[row * num_tokens + static_cast<std::size_t>(pack.kv_index[k])] = 1;
      }
    }
  }
  return mask;
}

}  // namespace memopd

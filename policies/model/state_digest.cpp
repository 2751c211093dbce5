#include "policies/model/state_digest.hpp"

#include <xxhash.h>

#include <algorithm>
#include <memory>

#include "policies/model/packed_tensors.hpp"

namespace memopd {

namespace {

static_assert(sizeof(DigestRow) == 16, "rows are hashed as they lie in memory");

/// A pack, whichever form it has; Index is the type of its ids and positions.
template <class Index>
struct PackView {
  std::span<const Index> ids;        ///< [T]
  std::span<const Index> positions;  ///< [T]
  std::span<const std::int32_t> kv_index;
  std::span<const AttentionBlock> blocks;  ///< in row order, covering [0, T)
  std::span<const Index> response_index;
  std::span<const Index> response_token_ids;

  [[nodiscard]] std::int32_t id(std::size_t row) const { return static_cast<std::int32_t>(ids[row]); }
  [[nodiscard]] std::int32_t position(std::size_t row) const { return static_cast<std::int32_t>(positions[row]); }
};

/// [T] every row with the view that its block gives it.
template <class Index>
std::vector<DigestRow> rows_of(const PackView<Index>& pack) {
  std::vector<DigestRow> rows(pack.ids.size());
  std::uint64_t view = 0;
  std::int32_t begin = 0;  // `view` has run over [begin, end) of kv_index
  std::int32_t end = 0;
  for (const AttentionBlock& block : pack.blocks) {
    const std::int32_t own = block.visible_begin + block.num_visible - (block.q_end - block.q_begin);
    if (block.visible_begin != begin || own < end) {  // not the next block of the same segment
      view = 0;
      begin = end = block.visible_begin;
    }
    for (; end < begin + block.num_visible; ++end) {
      const auto seen = static_cast<std::size_t>(pack.kv_index[static_cast<std::size_t>(end)]);
      view = extend_view(view, pack.id(seen), pack.position(seen));
      if (end >= own) {
        const auto row = static_cast<std::size_t>(block.q_begin + (end - own));
        rows[row] = {pack.id(row), pack.position(row), view};
      }
    }
  }
  return rows;
}

/// What `row` sees, itself last.
std::span<const std::int32_t> visible_rows(std::span<const AttentionBlock> blocks,
                                           std::span<const std::int32_t> kv_index, std::int32_t row) {
  const auto block = std::partition_point(blocks.begin(), blocks.end(),
                                          [row](const AttentionBlock& candidate) { return candidate.q_end <= row; });
  return kv_index.subspan(static_cast<std::size_t>(block->visible_begin),
                          static_cast<std::size_t>(block->num_visible - (block->q_end - 1 - row)));
}

template <class Index>
std::vector<Digest> digests_of(const PackView<Index>& pack, std::span<const PackedInvocation> invocations) {
  const std::vector<DigestRow> rows = rows_of(pack);
  std::vector<Digest> digests(invocations.size());
  std::vector<DigestRow> seen;
  for (std::size_t i = 0; i < invocations.size(); ++i) {
    if (invocations[i].response_begin == invocations[i].response_end) continue;
    const auto last = static_cast<std::size_t>(invocations[i].response_end - 1);
    seen.clear();
    for (const std::int32_t row :
         visible_rows(pack.blocks, pack.kv_index, static_cast<std::int32_t>(pack.response_index[last]))) {
      seen.push_back(rows[static_cast<std::size_t>(row)]);
    }
    digests[i] = digest_of(seen, static_cast<std::int32_t>(pack.response_token_ids[last]));
  }
  return digests;
}

std::span<const std::int64_t> values_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(tensor.numel())};
}

}  // namespace

std::uint64_t extend_view(std::uint64_t view, std::int32_t id, std::int32_t position) {
  const std::int32_t pair[] = {id, position};
  return XXH3_64bits_withSeed(pair, sizeof(pair), view);
}

Digest digest_of(std::span<const DigestRow> rows, std::int32_t last_id) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_128bits_reset(state.get());
  XXH3_128bits_update(state.get(), rows.data(), rows.size_bytes());
  XXH3_128bits_update(state.get(), &last_id, sizeof(last_id));
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return {hash.high64, hash.low64};
}

void StateDigest::append(std::int32_t id, std::int32_t position) {
  const std::uint64_t view = extend_view(rows_.empty() ? 0 : rows_.back().view, id, position);
  rows_.push_back({id, position, view});
}

std::vector<Digest> pack_digests(const PackedBatch& pack) {
  std::vector<AttentionBlock> segments;
  for (std::size_t s = 0; s + 1 < pack.cu_seqlens_q.size(); ++s) {
    segments.push_back({pack.cu_seqlens_q[s], pack.cu_seqlens_q[s + 1], pack.cu_seqlens_k[s],
                        pack.cu_seqlens_k[s + 1] - pack.cu_seqlens_k[s]});
  }
  const PackView<std::int32_t> view{pack.input_ids, pack.position_ids,   pack.kv_index,
                                    segments,       pack.response_index, pack.response_token_ids};
  return digests_of(view, pack.invocations);
}

std::vector<Digest> pack_digests(const PackedTensors& tensors, std::span<const PackedInvocation> invocations) {
  const PackView<std::int64_t> view{
      values_of(tensors.input_ids), values_of(tensors.position_ids),   tensors.plan->kv_index,
      tensors.plan->blocks,         values_of(tensors.response_index), values_of(tensors.response_token_ids)};
  return digests_of(view, invocations);
}

}  // namespace memopd

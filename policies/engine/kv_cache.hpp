// Keys and values of sequences: one slot each, all memory taken at construction. Torch-free.
// A slot that is released keeps its entries until it is acquired again and written: the prefix cache reads them.
//
// Shapes  L layers, N slots, Hkv key/value heads, Dh head size, C max_context_tokens.
// Keys lie transposed, [L, N, Hkv, Dh, key_stride]: the scores of one query are then sums over contiguous rows of C.
// Values lie [L, N, Hkv, C, Dh].
// Beside each entry of a slot stands the token whose key and value it holds, as it was fed: digests read that (AP-6).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

namespace memopd {

struct KvCacheShape {
  std::int64_t num_layers = 0;
  std::int64_t num_slots = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t max_context_tokens = 0;
};

/// What an entry of a slot was computed from.
struct CachedToken {
  std::int32_t id = 0;
  std::int32_t position = 0;  ///< by which its key was turned
};

/// Not thread-safe, except that different (slot, layer, index) may be written and read by different threads.
class KvCache {
 public:
  explicit KvCache(const KvCacheShape& shape);

  [[nodiscard]] bool has_free_slot() const { return !free_slots_.empty(); }
  /// The free slot that was released or used longest ago, never used ones first, in order; there is one.
  [[nodiscard]] std::int32_t acquire_slot();
  void release_slot(std::int32_t slot);
  /// A free slot counts as used now; for others nothing.
  void use_slot(std::int32_t slot);

  /// Writes key and value [Hkv, Dh] of one token into entry `index` of a slot; 0 <= index < C.
  void store(std::int64_t layer, std::int32_t slot, std::int64_t index, CachedToken token, const float* key,
             const float* value);

  /// Copies entries [0, count) of one slot to another, keys, values and the tokens beside them, in all layers.
  void copy_prefix(std::int32_t from, std::int32_t to, std::int64_t count);

  /// The token of an entry that was stored.
  [[nodiscard]] CachedToken token(std::int32_t slot, std::int64_t index) const {
    return tokens_[static_cast<std::size_t>(slot * shape_.max_context_tokens + index)];
  }

  /// [Dh, key_stride] and [C, Dh] of one head.
  [[nodiscard]] const float* keys(std::int64_t layer, std::int32_t slot, std::int64_t head) const {
    return keys_.get() + head_index(layer, slot, head) * shape_.head_dim * key_stride_;
  }
  [[nodiscard]] const float* values(std::int64_t layer, std::int32_t slot, std::int64_t head) const {
    return values_.get() + head_index(layer, slot, head) * shape_.head_dim * shape_.max_context_tokens;
  }

  /// Floats between the rows of a head's keys: an odd number of cache lines, so that columns do not share cache sets.
  [[nodiscard]] std::int64_t key_stride() const { return key_stride_; }

 private:
  [[nodiscard]] std::int64_t head_index(std::int64_t layer, std::int32_t slot, std::int64_t head) const {
    return (layer * shape_.num_slots + slot) * shape_.num_kv_heads + head;
  }

  KvCacheShape shape_;
  std::int64_t key_stride_;
  std::unique_ptr<float[]> keys_;
  std::unique_ptr<float[]> values_;
  std::unique_ptr<CachedToken[]> tokens_;  // [N, C]; written with layer 0
  std::deque<std::int32_t> free_slots_;    // longest unused first
};

}  // namespace memopd

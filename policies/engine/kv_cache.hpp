// Keys and values of the sequences in work: one slot each, all memory taken at construction. Torch-free.
//
// Shapes  L layers, N slots, Hkv key/value heads, Dh head size, C max_context_tokens.
// Keys lie transposed, [L, N, Hkv, Dh, C]: the scores of one query are then sums over contiguous rows of C.
// Values lie [L, N, Hkv, C, Dh].
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace memopd {

struct KvCacheShape {
  std::int64_t num_layers = 0;
  std::int64_t num_slots = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t max_context_tokens = 0;
};

/// Not thread-safe, except that different (slot, layer) pairs may be written and read by different threads.
class KvCache {
 public:
  explicit KvCache(const KvCacheShape& shape);

  [[nodiscard]] bool has_free_slot() const { return !free_slots_.empty(); }
  /// The free slot with the lowest number; there is one.
  [[nodiscard]] std::int32_t acquire_slot();
  void release_slot(std::int32_t slot);

  /// Writes key and value [Hkv, Dh] of one token; 0 <= position < C.
  void store(std::int64_t layer, std::int32_t slot, std::int64_t position, const float* key, const float* value);

  /// [Dh, C] and [C, Dh] of one head.
  [[nodiscard]] const float* keys(std::int64_t layer, std::int32_t slot, std::int64_t head) const {
    return keys_.get() + head_offset(layer, slot, head);
  }
  [[nodiscard]] const float* values(std::int64_t layer, std::int32_t slot, std::int64_t head) const {
    return values_.get() + head_offset(layer, slot, head);
  }

 private:
  [[nodiscard]] std::int64_t head_offset(std::int64_t layer, std::int32_t slot, std::int64_t head) const {
    return ((layer * shape_.num_slots + slot) * shape_.num_kv_heads + head) * shape_.head_dim *
           shape_.max_context_tokens;
  }

  KvCacheShape shape_;
  std::unique_ptr<float[]> keys_;
  std::unique_ptr<float[]> values_;
  std::vector<std::int32_t> free_slots_;  // sorted, lowest last
};

}  // namespace memopd

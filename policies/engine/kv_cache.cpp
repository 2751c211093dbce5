#include "policies/engine/kv_cache.hpp"

#include <algorithm>
#include <functional>

namespace memopd {

KvCache::KvCache(const KvCacheShape& shape) : shape_(shape) {
  const auto size = static_cast<std::size_t>(shape.num_layers * shape.num_slots * shape.num_kv_heads * shape.head_dim *
                                             shape.max_context_tokens);
  // Not cleared: a slot is read only where it was written, and untouched pages cost nothing.
  keys_ = std::make_unique_for_overwrite<float[]>(size);
  values_ = std::make_unique_for_overwrite<float[]>(size);
  for (std::int64_t slot = shape.num_slots; slot-- > 0;) free_slots_.push_back(static_cast<std::int32_t>(slot));
}

std::int32_t KvCache::acquire_slot() {
  const std::int32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void KvCache::release_slot(std::int32_t slot) {
  free_slots_.insert(std::lower_bound(free_slots_.begin(), free_slots_.end(), slot, std::greater<>()), slot);
}

void KvCache::store(std::int64_t layer, std::int32_t slot, std::int64_t position, const float* key,
                    const float* value) {
  for (std::int64_t head = 0; head < shape_.num_kv_heads; ++head) {
    const std::int64_t offset = head_offset(layer, slot, head);
    float* key_columns = keys_.get() + offset + position;
    for (std::int64_t i = 0; i < shape_.head_dim; ++i) {
      key_columns[i * shape_.max_context_tokens] = key[head * shape_.head_dim + i];
    }
    std::copy_n(value + head * shape_.head_dim, shape_.head_dim, values_.get() + offset + position * shape_.head_dim);
  }
}

}  // namespace memopd

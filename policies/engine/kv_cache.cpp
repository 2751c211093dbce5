#include "policies/engine/kv_cache.hpp"

#include <algorithm>

namespace memopd {

namespace {

/// At least `size` floats: an odd number of cache lines.
std::int64_t odd_lines(std::int64_t size) {
  constexpr std::int64_t kLine = 16;
  return ((size + kLine - 1) / kLine | 1) * kLine;
}

}  // namespace

KvCache::KvCache(const KvCacheShape& shape) : shape_(shape), key_stride_(odd_lines(shape.max_context_tokens)) {
  const std::int64_t num_rows = shape.num_layers * shape.num_slots * shape.num_kv_heads * shape.head_dim;
  // Not cleared: a slot is read only where it was written, and untouched pages cost nothing.
  keys_ = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(num_rows * key_stride_));
  values_ = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(num_rows * shape.max_context_tokens));
  tokens_ = std::make_unique_for_overwrite<CachedToken[]>(
      static_cast<std::size_t>(shape.num_slots * shape.max_context_tokens));
  for (std::int64_t slot = 0; slot < shape.num_slots; ++slot) free_slots_.push_back(static_cast<std::int32_t>(slot));
}

std::int32_t KvCache::acquire_slot() {
  const std::int32_t slot = free_slots_.front();
  free_slots_.pop_front();
  return slot;
}

void KvCache::release_slot(std::int32_t slot) { free_slots_.push_back(slot); }

void KvCache::use_slot(std::int32_t slot) {
  const auto place = std::find(free_slots_.begin(), free_slots_.end(), slot);
  if (place != free_slots_.end()) std::rotate(place, place + 1, free_slots_.end());
}

void KvCache::copy_prefix(std::int32_t from, std::int32_t to, std::int64_t count) {
  const std::int64_t dh = shape_.head_dim;
  for (std::int64_t layer = 0; layer < shape_.num_layers; ++layer) {
    for (std::int64_t head = 0; head < shape_.num_kv_heads; ++head) {
      const float* keys_from = keys(layer, from, head);
      float* keys_to = keys_.get() + head_index(layer, to, head) * dh * key_stride_;
      for (std::int64_t i = 0; i < dh; ++i) std::copy_n(keys_from + i * key_stride_, count, keys_to + i * key_stride_);
      std::copy_n(values(layer, from, head), count * dh,
                  values_.get() + head_index(layer, to, head) * dh * shape_.max_context_tokens);
    }
  }
  std::copy_n(tokens_.get() + from * shape_.max_context_tokens, count, tokens_.get() + to * shape_.max_context_tokens);
}

void KvCache::store(std::int64_t layer, std::int32_t slot, std::int64_t index, CachedToken token, const float* key,
                    const float* value) {
  if (layer == 0) tokens_[static_cast<std::size_t>(slot * shape_.max_context_tokens + index)] = token;
  const std::int64_t dh = shape_.head_dim;
  for (std::int64_t head = 0; head < shape_.num_kv_heads; ++head) {
    const std::int64_t at = head_index(layer, slot, head);
    float* key_column = keys_.get() + at * dh * key_stride_ + index;
    for (std::int64_t i = 0; i < dh; ++i) key_column[i * key_stride_] = key[head * dh + i];
    std::copy_n(value + head * dh, dh, values_.get() + (at * shape_.max_context_tokens + index) * dh);
  }
}

}  // namespace memopd

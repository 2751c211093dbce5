#include "policies/engine/prefix_cache.hpp"

#include <algorithm>
#include <cstddef>

namespace memopd {

std::int32_t num_common_tokens(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  const auto [end, unused] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<std::int32_t>(end - a.begin());
}

PrefixCache::PrefixCache(const KvCache& cache, std::int32_t num_slots)
    : cache_(cache), held_(static_cast<std::size_t>(num_slots)) {}

void PrefixCache::hold(std::int32_t slot, std::int64_t load, std::int32_t num_tokens) {
  held_[static_cast<std::size_t>(slot)] = {load, num_tokens};
}

PrefixHit PrefixCache::find(std::span<const std::int32_t> token_ids, std::int64_t load) const {
  PrefixHit best;
  for (std::size_t i = 0; i < held_.size(); ++i) {
    if (held_[i].load != load) continue;
    const auto slot = static_cast<std::int32_t>(i);
    const std::int32_t limit = std::min(held_[i].num_tokens, static_cast<std::int32_t>(token_ids.size()));
    std::int32_t common = 0;
    while (common < limit) {
      const CachedToken token = cache_.token(slot, common);
      if (token.id != token_ids[static_cast<std::size_t>(common)] || token.position != common) break;
      ++common;
    }
    if (common > best.num_tokens) best = {slot, common};
  }
  return best;
}

}  // namespace memopd

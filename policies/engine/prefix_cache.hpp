// Which slots hold the beginning of a sequence already: shared by the calls of a trajectory and by trajectories.
//
// A slot keeps what was stored in it until another sequence writes there, active or not. An entry may stand in for one that
// would be computed iff its own id and position, those of all entries before it, and the weights are equal. Ids are compared
// themselves, token by token, with what stands beside the entries: there is no hash that could collide.
// Weights are named by the load that brought them, one number for each (lineage, policy version) that was ever loaded:
// after a swap nothing older is found.
// Torch-free.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policies/engine/kv_cache.hpp"

namespace memopd {

struct PrefixHit {
  std::int32_t slot = 0;
  std::int32_t num_tokens = 0;  ///< 0 = nothing was found
};

/// How many ids two sequences begin with alike.
[[nodiscard]] std::int32_t num_common_tokens(std::span<const std::int32_t> a, std::span<const std::int32_t> b);

/// Reads `cache`, which outlives it. Not thread-safe.
class PrefixCache {
 public:
  PrefixCache(const KvCache& cache, std::int32_t num_slots);

  /// From now on entries [0, num_tokens) of `slot` are those that the weights of `load` compute, and no others.
  void hold(std::int32_t slot, std::int64_t load, std::int32_t num_tokens);

  /// The slot with the most leading entries for `token_ids` under `load`; the lowest of equals. O(slots + common tokens).
  [[nodiscard]] PrefixHit find(std::span<const std::int32_t> token_ids, std::int64_t load) const;

 private:
  struct Held {
    std::int64_t load = 0;
    std::int32_t num_tokens = 0;
  };

  const KvCache& cache_;
  std::vector<Held> held_;  // of each slot
};

}  // namespace memopd

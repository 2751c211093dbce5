// The learner's ranks of one process find one another here, since a group of ranks cannot travel in a message.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/actor/cluster.hpp"
#include "runtime/collective/collective.hpp"

namespace memopd {

/// The ranks of one process: put as an object whose reference travels in RoleInit, or met by join_rank_group.
using CollectiveGroup = std::vector<std::shared_ptr<Collective>>;

/// A place in a group of ranks; whoever holds one keeps the group together.
struct RankPlace {
  std::shared_ptr<const CollectiveGroup> group;
  std::shared_ptr<Collective> collective;
};

/// The place of `rank` among `num_ranks` in this process. Ranks that name the same cluster and generation meet; a later
/// generation never meets an earlier one. Thread-safe.
[[nodiscard]] RankPlace join_rank_group(const Cluster& cluster, std::int64_t generation, std::int32_t rank,
                                        std::int32_t num_ranks);

}  // namespace memopd

// How the ranks of a learner find one another: in one process by meeting here, since a group cannot travel in a message; in
// processes of their own through the actor rank_meeting.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/actor/cluster.hpp"
#include "runtime/collective/collective.hpp"
#include "runtime/config/schema.hpp"

namespace memopd {

/// The ranks of one process: put as an object whose reference travels in RoleInit, or met by join_rank_group.
using CollectiveGroup = std::vector<std::shared_ptr<Collective>>;

/// A place in a group of ranks; whoever holds one keeps the group together.
struct RankPlace {
  std::shared_ptr<const CollectiveGroup> group;  ///< null between processes
  std::shared_ptr<Collective> collective;
};

/// The place of `rank` among `num_ranks` in this process. Ranks that name the same cluster and generation meet; a later
/// generation never meets an earlier one. Thread-safe.
[[nodiscard]] RankPlace join_rank_group(const Cluster& cluster, std::int64_t generation, std::int32_t rank,
                                        std::int32_t num_ranks);

/// Whether each rank of the learner has a process of its own, so that one can be lost and the others not.
[[nodiscard]] bool has_rank_processes(const Config& config);

/// The same for ranks in different processes. The group "rank_meeting" must exist; `cluster` outlives the result.
[[nodiscard]] RankPlace join_ranks_of_processes(Cluster& cluster, std::int64_t generation, std::int32_t rank,
                                                std::int32_t num_ranks);

}  // namespace memopd

#include "actors/rank_group.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace memopd {

RankPlace join_rank_group(const Cluster& cluster, std::int64_t generation, std::int32_t rank, std::int32_t num_ranks) {
  static std::mutex mutex;
  static std::map<std::pair<const Cluster*, std::int64_t>, std::weak_ptr<const CollectiveGroup>> groups;
  const std::lock_guard lock(mutex);
  auto& place = groups[{&cluster, generation}];
  auto group = place.lock();
  if (!group) {
    group = std::make_shared<const CollectiveGroup>(make_local_collective(num_ranks));
    place = group;
  }
  return {group, (*group)[static_cast<std::size_t>(rank)]};
}

}  // namespace memopd

#include "runtime/actor/actor_pool.hpp"

#include <algorithm>

namespace memopd {

ActorPool::ActorPool(ActorGroup group)
    : group_(std::move(group)), counts_(std::make_shared<Counts>(group_.size(), 0)) {}

ActorRef ActorPool::pick() {
  std::size_t best = group_.size();
  bool best_is_alive = false;
  for (std::size_t rank = 0; rank < group_.size(); ++rank) {
    const bool is_alive = group_[rank].is_alive();
    const bool is_better = best == group_.size() || (is_alive && !best_is_alive) ||
                           (is_alive == best_is_alive && (*counts_)[rank] < (*counts_)[best]);
    if (is_better) {
      best = rank;
      best_is_alive = is_alive;
    }
  }
  if (best == group_.size()) {
    return {};
  }
  ++(*counts_)[best];
  return group_[best];
}

void ActorPool::done(const ActorRef& member) { release(*counts_, rank_of(member)); }

std::int32_t ActorPool::in_flight(const ActorRef& member) const {
  const std::size_t rank = rank_of(member);
  return rank < counts_->size() ? (*counts_)[rank] : 0;
}

std::size_t ActorPool::rank_of(const ActorRef& member) const {
  const auto& members = group_.members();
  return static_cast<std::size_t>(std::find(members.begin(), members.end(), member) - members.begin());
}

void ActorPool::release(Counts& counts, std::size_t rank) {
  if (rank < counts.size() && counts[rank] > 0) {
    --counts[rank];
  }
}

}  // namespace memopd

#include "actors/rank_group.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "actors/messages.hpp"
#include "runtime/base/check.hpp"
#include "runtime/collective/object_collective.hpp"

namespace memopd {
namespace {

/// The way to the actor rank_meeting for a rank that blocks in its own actor. An actor must not wait for a Future: what it
/// waits for might be a message to itself. Here it cannot be, so each meeting is asked and awaited on a thread beside it.
class ActorMeeting final : public RankMeeting {
 public:
  ActorMeeting(Cluster& cluster, ActorRef place) : cluster_(cluster), place_(std::move(place)) {}

  Expected<RanksMet> meet(RankArrival arrival) override {
    constexpr std::chrono::seconds kForTheAnswer{30};  // the place names who is missing; this is for its own silence
    const auto deadline = std::chrono::milliseconds(arrival.deadline_ms) + kForTheAnswer;
    std::optional<Expected<RanksMet>> met;
    std::thread([&] { met = cluster_.ask<RanksMet>(place_, std::move(arrival), deadline).get(); }).join();
    return *std::move(met);
  }
  void abort(std::int64_t generation, const std::string& reason) override {
    (void)cluster_.tell(place_, EndRanks{generation, reason});
  }

 private:
  Cluster& cluster_;
  ActorRef place_;
};

}  // namespace

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

bool has_rank_processes(const Config& config) {
  return config.learner.num_ranks > 1 &&
         std::any_of(config.role.begin(), config.role.end(),
                     [](const RoleConfig& role) { return role.name == "learner" && role.process == "own"; });
}

RankPlace join_ranks_of_processes(Cluster& cluster, std::int64_t generation, std::int32_t rank,
                                  std::int32_t num_ranks) {
  const auto place = cluster.find("rank_meeting");
  MEMOPD_CHECK(place, "the group rank_meeting is spawned before learner");
  auto meeting = std::make_shared<ActorMeeting>(cluster, (*place)[0]);
  return {nullptr, make_object_collective(cluster.objects(), std::move(meeting),
                                          {.generation = generation, .rank = rank, .num_ranks = num_ranks})};
}

}  // namespace memopd

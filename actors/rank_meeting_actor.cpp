#include "actors/rank_meeting_actor.hpp"

#include <memory>

#include "runtime/collective/object_collective.hpp"

namespace memopd {

MEMOPD_REGISTER_ACTOR("rank_meeting", RankMeetingActor)

void RankMeetingActor::setup() {
  on(&RankMeetingActor::arrive);
  on(&RankMeetingActor::end);
  on(&RankMeetingActor::due);
}

Later<RanksMet> RankMeetingActor::arrive(const RankArrival& arrival) {
  auto promise = std::make_shared<Promise<RanksMet>>(make_promise<RanksMet>());
  auto later = promise->later();
  if (place_.arrive(arrival, [promise](const Expected<RanksMet>& met) { promise->deliver(met); })) {
    after(std::chrono::milliseconds(arrival.deadline_ms),
          MeetingDue{arrival.generation, arrival.meeting, arrival.deadline_ms});
  }
  return later;
}

/// Those who live hold what they still read; what the others left in the store has no owner any more.
void RankMeetingActor::end(const EndRanks& request) {
  place_.end(request.generation, request.reason);
  objects().release_scope(scope_of_generation(request.generation));
}

void RankMeetingActor::due(const MeetingDue& meeting) {
  place_.expire(meeting.generation, meeting.meeting, std::chrono::milliseconds(meeting.deadline_ms));
}

}  // namespace memopd

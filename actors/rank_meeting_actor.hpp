// rank_meeting: the place where learner ranks of different processes meet, behind a mailbox. Lives in the launcher.
#pragma once

#include "actors/messages.hpp"
#include "runtime/actor/actor.hpp"
#include "runtime/collective/rank_meeting.hpp"

namespace memopd {

/// To itself: the deadline of a meeting.
struct MeetingDue {
  std::int64_t generation = 0;
  std::int64_t meeting = 0;
  std::int64_t deadline_ms = 0;
};
MEMOPD_MESSAGE(MeetingDue, 1, generation, meeting, deadline_ms)

class RankMeetingActor final : public Actor {
 private:
  void setup() override;
  Later<RanksMet> arrive(const RankArrival& arrival);
  void end(const EndRanks& request);
  void due(const MeetingDue& meeting);

  MeetingPlace place_;
};

}  // namespace memopd

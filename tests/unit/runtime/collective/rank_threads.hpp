// Ranks as threads of the test, with the forms of a group that they may have.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/collective/collective.hpp"
#include "runtime/collective/object_collective.hpp"
#include "runtime/collective/rank_meeting.hpp"

namespace memopd::testing {

/// Runs `body(rank)` on one thread per rank and joins them.
void on_every_rank(int world_size, const std::function<void(int)>& body);

/// A MeetingPlace that threads wait at. Deadlines are the test's: call place() while nobody else does.
class ThreadMeeting final : public RankMeeting {
 public:
  Expected<RanksMet> meet(RankArrival arrival) override;
  void abort(std::int64_t generation, const std::string& reason) override;
  /// Blocks until so many arrivals wait, then ends their meeting as its deadline would.
  void expire_when_waiting(int num_waiting, std::int64_t generation, std::int64_t meeting,
                           std::chrono::milliseconds deadline);
  [[nodiscard]] std::int64_t num_meetings() const { return num_meetings_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  MeetingPlace place_;
  int num_waiting_ = 0;
  std::int64_t num_meetings_ = 0;  ///< arrivals, of all ranks
};

/// The ranks of one generation over `objects`.
std::vector<std::shared_ptr<Collective>> make_object_group(ObjectStore& objects,
                                                           const std::shared_ptr<RankMeeting>& meeting, int world_size,
                                                           std::size_t max_piece_bytes = 64 << 20,
                                                           std::int64_t generation = 0);

}  // namespace memopd::testing

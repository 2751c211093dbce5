// RankMeeting: where ranks in different processes find one another for each step of an operation. They bring references;
// the payloads lie in an ObjectStore (object_collective.hpp).
//
// RM-1 together    a meeting is over for all ranks or for none: with everybody's references, or with one error for all
// RM-2 generation  ranks of different generations never meet: a later one ends the earlier, whose ranks are refused (CL-2)
// RM-3 named       who is missing at the deadline, and who called something else, is said by rank (R4)
// RM-4 repeated    an arrival that comes twice is answered twice with the same
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/data/teacher_scores.hpp"

namespace memopd {

/// One rank at one meeting.
struct RankArrival {
  std::int64_t generation = 0;  ///< of the group; >= 0
  std::int32_t rank = 0;        ///< 0-based
  std::int32_t num_ranks = 0;
  std::int64_t meeting = 0;        ///< counts the meetings of the group, from 0
  std::string operation;           ///< "broadcast of 8 from root 0"; all ranks say the same
  std::vector<ObjectRef> objects;  ///< what it brings
  std::int64_t deadline_ms = 0;    ///< from the first arrival on
};

struct RanksMet {
  std::vector<std::vector<ObjectRef>> objects;  ///< [num_ranks]
};

/// A rank's way to the meeting place.
class RankMeeting {
 public:
  virtual ~RankMeeting() = default;
  /// Blocks until all ranks have arrived. @error as MeetingPlace
  virtual Expected<RanksMet> meet(RankArrival arrival) = 0;
  /// Ends the group of this generation and all before it. Thread-safe.
  virtual void abort(std::int64_t generation, const std::string& reason) = 0;
};

/// The place itself: a state machine without threads, clock or I/O. Answers are called inside the calls below.
class MeetingPlace {
 public:
  using Answer = std::function<void(const Expected<RanksMet>&)>;

  /// @return whether this arrival is the first at its meeting, which expire() then ends at its deadline
  /// @error target_down     the group was ended; carries the reason
  /// @error timeout         somebody did not come; names the operation and the missing ranks
  /// @error shape_mismatch  ranks called different operations; names two
  /// @error refused         a rank of an earlier generation, of an earlier meeting, outside the group
  bool arrive(RankArrival arrival, Answer answer);
  /// The deadline of a meeting; nothing when it is over.
  void expire(std::int64_t generation, std::int64_t meeting, std::chrono::milliseconds deadline);
  /// Ends the groups of `generation` and before: whoever waits gets target_down with `reason`.
  void end(std::int64_t generation, const std::string& reason);

 private:
  void begin(std::int64_t generation, std::int32_t num_ranks);
  void fail(Error error);
  void deliver(const Expected<RanksMet>& outcome);
  [[nodiscard]] Expected<void> check(const RankArrival& arrival) const;
  [[nodiscard]] std::optional<Error> disagreement() const;
  [[nodiscard]] std::string missing() const;

  std::int64_t generation_ = -1;  ///< the latest that anybody has named
  std::int64_t meeting_ = 0;      ///< the one that is open
  std::vector<std::optional<RankArrival>> arrivals_;
  std::vector<Answer> answers_;
  std::int32_t num_arrived_ = 0;
  std::optional<RanksMet> last_;  ///< of the meeting before the open one
  std::optional<Error> failure_;  ///< ends the generation
};

}  // namespace memopd

#include "runtime/collective/rank_meeting.hpp"

#include <algorithm>
#include <utility>

namespace memopd {

bool MeetingPlace::arrive(RankArrival arrival, Answer answer) {
  if (arrival.generation > generation_) {
    fail({ErrorCode::target_down, "collective aborted: generation " + std::to_string(arrival.generation) + " meets"});
    begin(arrival.generation, arrival.num_ranks);
  }
  if (const Expected<void> checked = check(arrival); !checked) {
    answer(unexpected(checked.error()));
    return false;
  }
  if (arrival.meeting + 1 == meeting_ && last_) {
    answer(*last_);
    return false;
  }
  if (arrival.meeting != meeting_) {
    answer(unexpected(ErrorCode::refused, "rank " + std::to_string(arrival.rank) + " came to meeting " +
                                              std::to_string(arrival.meeting) + ", the group is at " +
                                              std::to_string(meeting_)));
    return false;
  }
  answers_.push_back(std::move(answer));
  auto& place = arrivals_[static_cast<std::size_t>(arrival.rank)];
  const bool is_repeat = place.has_value();
  if (!is_repeat) {
    place = std::move(arrival);
    ++num_arrived_;
  }
  const bool is_first = num_arrived_ == 1 && !is_repeat;
  if (num_arrived_ < static_cast<std::int32_t>(arrivals_.size())) {
    return is_first;
  }
  if (const auto error = disagreement()) {
    fail(*error);
    return false;
  }
  RanksMet met;
  for (auto& arrived : arrivals_) {
    met.objects.push_back(std::move(arrived->objects));
    arrived.reset();
  }
  ++meeting_;
  num_arrived_ = 0;
  last_ = met;
  deliver(met);
  return false;
}

void MeetingPlace::expire(std::int64_t generation, std::int64_t meeting, std::chrono::milliseconds deadline) {
  if (generation != generation_ || meeting != meeting_ || num_arrived_ == 0) {
    return;
  }
  for (const auto& arrived : arrivals_) {
    if (arrived) {
      fail({ErrorCode::timeout, arrived->operation + ": no arrival of " + missing() + " within " +
                                    std::to_string(deadline.count()) + " ms"});
      return;
    }
  }
}

void MeetingPlace::end(std::int64_t generation, const std::string& reason) {
  if (generation < generation_) {
    return;
  }
  if (generation > generation_) {
    fail({ErrorCode::target_down, "collective aborted: " + reason});
    begin(generation, 0);
  }
  fail({ErrorCode::target_down, "collective aborted: " + reason});
}

void MeetingPlace::begin(std::int64_t generation, std::int32_t num_ranks) {
  generation_ = generation;
  meeting_ = 0;
  arrivals_.assign(static_cast<std::size_t>(std::max(num_ranks, 0)), std::nullopt);
  num_arrived_ = 0;
  last_.reset();
  failure_.reset();
}

/// The first failure stays.
void MeetingPlace::fail(Error error) {
  if (!failure_) {
    failure_ = std::move(error);
  }
  for (auto& arrived : arrivals_) {
    arrived.reset();
  }
  num_arrived_ = 0;
  last_.reset();
  deliver(unexpected(*failure_));
}

void MeetingPlace::deliver(const Expected<RanksMet>& outcome) {
  for (const Answer& answer : std::exchange(answers_, {})) {
    answer(outcome);
  }
}

Expected<void> MeetingPlace::check(const RankArrival& arrival) const {
  const std::string who = "rank " + std::to_string(arrival.rank);
  if (arrival.generation < generation_) {
    return unexpected(ErrorCode::refused, who + " of generation " + std::to_string(arrival.generation) +
                                              ", the ranks are at generation " + std::to_string(generation_));
  }
  if (failure_) {
    return unexpected(*failure_);
  }
  const auto num_ranks = static_cast<std::int32_t>(arrivals_.size());
  if (arrival.num_ranks != num_ranks || arrival.rank < 0 || arrival.rank >= num_ranks) {
    return unexpected(ErrorCode::refused, who + " of " + std::to_string(arrival.num_ranks) + ", the group has " +
                                              std::to_string(num_ranks) + " ranks");
  }
  return {};
}

std::optional<Error> MeetingPlace::disagreement() const {
  for (std::size_t rank = 1; rank < arrivals_.size(); ++rank) {
    if (arrivals_[rank]->operation != arrivals_[0]->operation) {
      return Error{ErrorCode::shape_mismatch, "rank " + std::to_string(rank) + " called " + arrivals_[rank]->operation +
                                                  ", rank 0 called " + arrivals_[0]->operation};
    }
  }
  return std::nullopt;
}

std::string MeetingPlace::missing() const {
  std::string names;
  for (std::size_t rank = 0; rank < arrivals_.size(); ++rank) {
    if (!arrivals_[rank]) {
      names += (names.empty() ? "rank " : ", rank ") + std::to_string(rank);
    }
  }
  return names;
}

}  // namespace memopd

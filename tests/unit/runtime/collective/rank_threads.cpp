#include "tests/unit/runtime/collective/rank_threads.hpp"

#include <optional>
#include <thread>
#include <utility>

namespace memopd::testing {

void on_every_rank(int world_size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back(body, rank);
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

Expected<RanksMet> ThreadMeeting::meet(RankArrival arrival) {
  std::optional<Expected<RanksMet>> outcome;
  std::unique_lock lock(mutex_);
  ++num_meetings_;
  ++num_waiting_;
  (void)place_.arrive(std::move(arrival), [&outcome](const Expected<RanksMet>& met) { outcome = met; });
  changed_.notify_all();
  changed_.wait(lock, [&] { return outcome.has_value(); });
  --num_waiting_;
  return *std::move(outcome);
}

void ThreadMeeting::abort(std::int64_t generation, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  place_.end(generation, reason);
  changed_.notify_all();
}

void ThreadMeeting::expire_when_waiting(int num_waiting, std::int64_t generation, std::int64_t meeting,
                                        std::chrono::milliseconds deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return num_waiting_ == num_waiting; });
  place_.expire(generation, meeting, deadline);
  changed_.notify_all();
}

std::vector<std::shared_ptr<Collective>> make_object_group(ObjectStore& objects,
                                                           const std::shared_ptr<RankMeeting>& meeting, int world_size,
                                                           std::size_t max_piece_bytes, std::int64_t generation) {
  std::vector<std::shared_ptr<Collective>> group;
  for (int rank = 0; rank < world_size; ++rank) {
    group.push_back(make_object_collective(objects, meeting, {generation, rank, world_size, max_piece_bytes}));
  }
  return group;
}

}  // namespace memopd::testing

// The records of the step in progress: what came in, what the teacher still has to score, what the learner will get.
//
// RL-1 ledger   the owner writes a record before it adds it here.
// RL-2 once     an invocation or trajectory that comes twice counts once; the same key with other ids is an error.
// AP-1 identity invocations are kept as they came.
// No actor, no thread, no clock.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "actors/messages.hpp"
#include "runtime/config/schema.hpp"
#include "runtime/data/packed_batch.hpp"
#include "runtime/data/teacher_scores.hpp"

namespace memopd {

/// A pack for a teacher and its number, by which scored() and failed() name it.
struct TeacherPack {
  std::int64_t number = 0;
  std::shared_ptr<const PackedBatch> pack;
};

class StepAssembler {
 public:
  /// @param needs_scores  false: no teacher, trajectories are complete without scores
  StepAssembler(const PackConfig& config, bool needs_scores);

  /// @return false: a repeat, dropped
  /// @error already_exists  the key is known with other ids; names it
  Expected<bool> add(const Invocation& invocation);
  Expected<bool> add(const EmitTrajectory& record);

  /// The next pack by [pack] teacher_flush; nothing when nothing waits, or not yet.
  /// @param is_closing  the step is being closed: whatever waits goes out
  /// @error invocation_too_long  an invocation above pack.max_tokens
  Expected<std::optional<TeacherPack>> next_pack(bool is_closing);

  /// Scores of a pack came. @error row_count_mismatch  `num_rows` is not the pack's R; the pack stays unscored
  Expected<void> scored(std::int64_t pack_number, const PackScored& scores, std::int64_t num_rows);
  /// No teacher could score it: its trajectories become teacher_unavailable.
  void failed(std::int64_t pack_number);

  /// Every trajectory of `request` has its record, its invocations and, if needed, their scores.
  [[nodiscard]] bool is_complete(const CloseStep& request) const;

  /// The batch of `request`, in id order, with the attempts that count; forgets everything else.
  StepBatch close(const CloseStep& request);

  [[nodiscard]] std::int64_t num_superseded() const { return num_superseded_; }
  [[nodiscard]] std::int64_t num_repeats() const { return num_repeats_; }

 private:
  struct Attempt {
    std::map<std::int32_t, Invocation> invocations;
    std::map<std::int32_t, ScoreRef> scores;
    std::optional<EmitTrajectory> record;
    bool is_unscored = false;  // given up by the teachers
  };
  using Key = std::tuple<TrajectoryId, std::int32_t, std::int32_t>;  // id, attempt, invocation_index

  [[nodiscard]] bool is_complete(const Attempt& attempt) const;
  [[nodiscard]] const Attempt* counting_attempt(const TrajectoryId& id) const;

  PackConfig config_;
  bool needs_scores_;
  std::map<TrajectoryId, std::map<std::int32_t, Attempt>> attempts_;
  std::deque<Key> waiting_;
  std::map<std::int64_t, std::shared_ptr<const PackedBatch>> in_flight_;
  std::int64_t next_pack_ = 0;
  std::int64_t num_superseded_ = 0;
  std::int64_t num_repeats_ = 0;
};

}  // namespace memopd

// The records of the steps in progress: what came in, what the teacher still has to score, what the learner will get.
//
// A record belongs to the step of its trajectory id. Steps are closed in order; what comes for a closed one is late.
// RL-1 ledger   the owner writes a record before it adds it here.
// RL-2 once     an invocation or trajectory that comes twice counts once; the same key with other ids is an error.
// AP-1 identity invocations are kept as they came.
// No actor, no thread, no clock.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
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
  std::int32_t step = 0;  ///< the latest of its invocations': its scores are needed until that one is trained
};

/// Packs one whole trajectory in another state than the one it was sampled in (a control).
using PackHistory = std::function<Expected<std::vector<PackedBatch>>(const Trajectory&)>;

class StepAssembler {
 public:
  /// @param needs_scores  false: no teacher, trajectories are complete without scores
  /// @param pack_history  empty: invocations are scored as they come, each in its own state; else trajectories once whole
  StepAssembler(const PackConfig& config, bool needs_scores, PackHistory pack_history = {});

  /// @return false: a repeat or late, dropped
  /// @error already_exists  the key is known with other ids; names it
  Expected<bool> add(const Invocation& invocation);
  Expected<bool> add(const EmitTrajectory& record);

  /// The next pack by [pack] teacher_flush; nothing when nothing waits, or not yet.
  /// @param is_closing  the step is being closed: whatever waits goes out
  /// @error invocation_too_long  an invocation, or the history of a trajectory, above pack.max_tokens
  Expected<std::optional<TeacherPack>> next_pack(bool is_closing);

  /// Scores of a pack came. @error row_count_mismatch  not as many rows as the pack's R; the pack stays unscored
  Expected<void> scored(std::int64_t pack_number, const PackScored& answer, const TeacherScores& scores);
  /// No teacher could score it: its trajectories become teacher_unavailable.
  void failed(std::int64_t pack_number);

  /// The pack was handed out and its scores are still of use.
  [[nodiscard]] bool is_awaited(std::int64_t pack_number) const { return in_flight_.contains(pack_number); }

  /// Every trajectory of `request` has its record, its invocations and, if needed, their scores.
  [[nodiscard]] bool is_complete(const CloseStep& request) const;

  /// The batch of `request`, in id order, with the attempts that count; forgets everything else of its step.
  StepBatch close(const CloseStep& request);

  /// Steps before `step` are closed; forgets what there is of them. @return attempts that had records
  std::int64_t skip_to(std::int32_t step);

  [[nodiscard]] std::int64_t num_superseded() const { return num_superseded_; }
  [[nodiscard]] std::int64_t num_repeats() const { return num_repeats_; }
  [[nodiscard]] std::int64_t num_late() const { return num_late_; }

 private:
  struct Attempt {
    std::map<std::int32_t, Invocation> invocations;
    std::map<std::int32_t, ScoreRef> scores;
    std::optional<EmitTrajectory> record;
    bool is_unscored = false;  // given up by the teachers
    bool is_queued = false;    // as a whole, for its history
  };
  using Key = std::tuple<TrajectoryId, std::int32_t, std::int32_t>;  // id, attempt, invocation_index

  [[nodiscard]] static bool has_everything(const Attempt& attempt);
  [[nodiscard]] static Trajectory whole(const Attempt& attempt);
  [[nodiscard]] bool is_complete(const Attempt& attempt) const;
  [[nodiscard]] bool is_late(const TrajectoryId& id);
  void queue_if_whole(const TrajectoryId& id, Attempt& attempt);
  [[nodiscard]] Expected<PackedBatch> pack_invocations();
  [[nodiscard]] Expected<PackedBatch> pack_trajectory();
  [[nodiscard]] const Attempt* counting_attempt(const TrajectoryId& id) const;

  PackConfig config_;
  bool needs_scores_;
  PackHistory pack_history_;
  std::map<TrajectoryId, std::map<std::int32_t, Attempt>> attempts_;
  std::deque<Key> waiting_;  // invocations; whole trajectories (invocation_index 0) with pack_history_
  std::map<std::int64_t, std::shared_ptr<const PackedBatch>> in_flight_;
  std::int64_t next_pack_ = 0;
  std::int64_t num_superseded_ = 0;
  std::int64_t num_repeats_ = 0;
  std::int64_t num_late_ = 0;
  std::int32_t first_open_step_ = 0;
};

}  // namespace memopd

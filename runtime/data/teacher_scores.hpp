// Exact full-vocabulary teacher scores at a fraction of the bytes of logits: the input of the teacher's head.
//
// The learner holds the head (named by its fingerprint) and forms p = softmax(head(hidden) / opd.temperature) itself.
// A row count that differs from the invocation's response tokens is a named error, never a broadcast.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/invocation.hpp"
#include "runtime/data/tensor.hpp"
#include "runtime/data/trajectory.hpp"

namespace memopd {

/// 128-bit name of an object in the object store; zero = none.
struct ObjectRef {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  friend auto operator<=>(const ObjectRef&, const ObjectRef&) = default;
};

/// Scores of one pack: row r belongs to response row r of the pack.
struct TeacherScores {
  HostTensor hidden;                    ///< [R, D] hidden state after the final norm, in the head's dtype
  std::vector<std::uint8_t> row_valid;  ///< [R] 0 = excluded: non-finite or beyond the teacher's length limit
  std::uint64_t head_fingerprint = 0;
  std::vector<Digest> digests;  ///< [I] of the pack's invocations, as the teacher fed them (AP-6)
};

/// Where the scores of one invocation lie: rows [row_begin, row_end) of a TeacherScores object.
struct ScoreRef {
  TrajectoryId trajectory_id;
  std::int32_t attempt = 0;
  std::int32_t invocation_index = 0;
  ObjectRef object;
  std::int32_t row_begin = 0;
  std::int32_t row_end = 0;
  std::uint64_t head_fingerprint = 0;
  Digest digest{};  ///< of the state it was scored in (AP-6)
};

/// What a learner trains on: the trajectories of one closed step and where their scores lie.
struct StepBatch {
  std::int64_t lineage = 0;
  std::int32_t step = 0;
  std::int64_t policy_version = 0;       ///< the learner's at the start of the step
  std::vector<Trajectory> trajectories;  ///< in id order
  std::vector<ScoreRef> scores;          ///< ordered by (trajectory_id, invocation_index); empty without a teacher
};

}  // namespace memopd

// A pack with everything the losses of one micro-batch need, row by row; made once per step, read by every epoch.
//
// Shapes  R response rows of the pack, E width of the teacher's hidden rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "policies/model/packed_tensors.hpp"
#include "policies/training/learner.hpp"
#include "runtime/alignpack/align_pack.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/data/teacher_scores.hpp"

namespace memopd {

/// An invocation with at least one response token and where its scores lie.
struct ScoredInvocation {
  const Invocation* invocation = nullptr;
  std::size_t trajectory = 0;                     ///< the caller's number of its trajectory
  std::shared_ptr<const TeacherScores> scores{};  ///< null without a teacher
  std::int32_t row_begin = 0;                     ///< into scores
};

/// Rows [begin, end) of one invocation in its micro-batch.
struct InvocationRows {
  std::size_t trajectory = 0;
  std::int32_t invocation_index = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct MicroBatch {
  PackedTensors tensors;
  std::vector<InvocationRows> invocations;  ///< cover [0, R) in order
  at::Tensor teacher_rows_RE;               ///< zero where invalid; undefined without a teacher
  std::vector<std::int64_t> token_ids;      ///< [R]; so are all below
  std::vector<std::uint8_t> is_included;    ///< 0 = excluded from every loss
  std::vector<double> rollout_log_probs;
  std::vector<double> old_log_probs;
  std::vector<double> old_values;
  std::vector<double> advantages;
  std::vector<double> returns;
  std::vector<double> policy_weights;
  std::int64_t num_invalid_teacher_rows = 0;

  [[nodiscard]] std::size_t num_rows() const { return token_ids.size(); }
};

/// Packs `invocations` in order. Rows whose teacher row is invalid or not finite start out excluded.
/// @error shape_mismatch  scores of another width or of an integer type
/// @error row_count_mismatch  scores with fewer rows than [row_begin, row_begin + A); names the invocation
Expected<std::vector<MicroBatch>> make_micro_batches(std::span<const ScoredInvocation> invocations,
                                                     const AlignPackOptions& pack, std::int64_t teacher_width,
                                                     at::ScalarType dtype);

/// Checks what make_micro_batches would refuse, for one invocation.
Expected<void> check_scores(const ScoredInvocation& scored, std::int64_t teacher_width);

}  // namespace memopd

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
#include "policies/training/digest_check.hpp"
#include "policies/training/learner.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/data/packed_batch.hpp"
#include "runtime/data/teacher_scores.hpp"

namespace memopd {

/// An invocation with at least one response token and where its scores lie.
struct ScoredInvocation {
  const Invocation* invocation = nullptr;
  std::size_t trajectory = 0;                     ///< the caller's number of its trajectory
  std::shared_ptr<const TeacherScores> scores{};  ///< null without a teacher
  std::int32_t row_begin = 0;                     ///< into scores
  Digest teacher_digest{};                        ///< of the state that was scored
};

/// Rows [begin, end) of one invocation in its micro-batch.
struct InvocationRows {
  std::size_t trajectory = 0;
  std::int32_t invocation_index = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
  FedDigests digests{};  ///< the learner's is zero where there is nothing to compare it with
};

struct MicroBatch {
  PackedTensors tensors;
  std::vector<InvocationRows> invocations;  ///< cover [0, R) in order
  at::Tensor teacher_rows_RE;               ///< zero where invalid; undefined without a teacher
  std::vector<std::int64_t> token_ids;      ///< [R]; so are all below
  std::vector<std::uint8_t> is_included;    ///< 0 = excluded from every loss
  std::vector<double> rollout_log_probs;
  std::vector<double> old_log_probs;
  std::vector<double> reference_log_probs;  ///< of the frozen reference; read with ppo.reference_kl_coef > 0 only
  std::vector<double> old_values;
  std::vector<double> advantages;
  std::vector<double> returns;
  std::vector<double> policy_weights;
  std::int64_t num_invalid_teacher_rows = 0;

  [[nodiscard]] std::size_t num_rows() const { return token_ids.size(); }
};

/// This rank's part of one optimizer step, and what all ranks together have in it.
struct MiniBatch {
  std::vector<MicroBatch> micro_batches;
  std::int64_t num_response_tokens = 0;  ///< R, over all ranks, excluded rows included
  std::int64_t num_trajectories = 0;     ///< over all ranks
};

/// One micro-batch for each of `packs`, whose tables together name `invocations`, in order. Rows whose teacher row is
/// invalid or not finite start out excluded.
/// @param teacher_width  0 = no scores are read
/// @error shape_mismatch  scores of another width or of an integer type
/// @error row_count_mismatch  scores with fewer rows than [row_begin, row_begin + A); names the invocation
Expected<std::vector<MicroBatch>> make_micro_batches(std::span<const ScoredInvocation> invocations,
                                                     std::span<const PackedBatch> packs, std::int64_t teacher_width,
                                                     at::ScalarType dtype);

/// Checks what make_micro_batches would refuse, for one invocation.
Expected<void> check_scores(const ScoredInvocation& scored, std::int64_t teacher_width);

}  // namespace memopd

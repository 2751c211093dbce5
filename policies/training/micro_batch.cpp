#include "policies/training/micro_batch.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "policies/model/state_digest.hpp"
#include "policies/training/step_plan.hpp"

namespace memopd {
namespace {

template <class T>
double element(const std::byte* bytes, std::int64_t index) {
  T value;
  std::memcpy(&value, bytes + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
  return static_cast<double>(value);
}

/// Copies row `from` of `hidden` into `row_E`; false, and zeros, if an element is not finite.
template <class Target>
bool copy_row(const HostTensor& hidden, std::int64_t from, std::int64_t width, Target* row_E) {
  const bool is_double = hidden.dtype == DType::float64;
  bool is_finite = true;
  for (std::int64_t e = 0; e < width; ++e) {
    const double value = is_double ? element<double>(hidden.bytes.data(), from * width + e)
                                   : element<float>(hidden.bytes.data(), from * width + e);
    is_finite = is_finite && std::isfinite(value);
    row_E[e] = static_cast<Target>(value);
  }
  if (!is_finite) {
    std::fill_n(row_E, width, Target{0});
  }
  return is_finite;
}

template <class Target>
void fill_teacher_rows(MicroBatch& batch, std::span<const ScoredInvocation> invocations) {
  auto* const rows_RE = batch.teacher_rows_RE.data_ptr<Target>();
  const std::int64_t width = batch.teacher_rows_RE.size(1);
  for (std::size_t i = 0; i < invocations.size(); ++i) {
    const TeacherScores& scores = *invocations[i].scores;
    for (std::size_t r = batch.invocations[i].begin; r < batch.invocations[i].end; ++r) {
      const auto from = static_cast<std::size_t>(invocations[i].row_begin) + (r - batch.invocations[i].begin);
      const bool is_valid =
          scores.row_valid[from] != 0 && copy_row(scores.hidden, static_cast<std::int64_t>(from), width,
                                                  rows_RE + static_cast<std::int64_t>(r) * width);
      batch.is_included[r] = is_valid ? 1 : 0;
      batch.num_invalid_teacher_rows += is_valid ? 0 : 1;
    }
  }
}

/// Hashes what is about to be fed, if somebody else has hashed too.
void set_learner_digests(std::span<const PackedInvocation> table, MicroBatch& batch) {
  const bool is_asked = std::any_of(batch.invocations.begin(), batch.invocations.end(), [](const InvocationRows& rows) {
    return rows.digests.engine != Digest{} || rows.digests.teacher != Digest{};
  });
  if (!is_asked) {
    return;
  }
  const std::vector<Digest> digests = pack_digests(batch.tensors, table);
  for (std::size_t i = 0; i < batch.invocations.size(); ++i) {
    batch.invocations[i].digests.learner = digests[i];
  }
}

Expected<MicroBatch> make_micro_batch(const PackedBatch& pack, std::span<const ScoredInvocation> invocations,
                                      std::int64_t teacher_width, at::ScalarType dtype) {
  MicroBatch batch;
  Expected<PackedTensors> tensors = to_tensors(pack);
  if (!tensors) {
    return unexpected(tensors.error());
  }
  batch.tensors = std::move(*tensors);
  batch.token_ids.assign(pack.response_token_ids.begin(), pack.response_token_ids.end());
  const std::size_t num_rows = batch.num_rows();
  batch.is_included.assign(num_rows, 1);
  for (auto* const column : {&batch.rollout_log_probs, &batch.old_log_probs, &batch.reference_log_probs,
                             &batch.old_values, &batch.advantages, &batch.returns, &batch.policy_weights}) {
    column->assign(num_rows, 0);
  }
  for (std::size_t i = 0; i < invocations.size(); ++i) {
    const PackedInvocation& packed = pack.invocations[i];
    MEMOPD_CHECK(packed.trajectory_id == invocations[i].invocation->trajectory_id &&
                     packed.invocation_index == invocations[i].invocation->invocation_index,
                 "a pack names other invocations than those it was made of");
    batch.invocations.push_back({invocations[i].trajectory,
                                 packed.invocation_index,
                                 static_cast<std::size_t>(packed.response_begin),
                                 static_cast<std::size_t>(packed.response_end),
                                 {packed.digest, invocations[i].teacher_digest, {}}});
    const std::vector<float>& rollout = invocations[i].invocation->rollout_log_probs;
    std::copy_n(rollout.begin(), std::min(rollout.size(), invocations[i].invocation->response_token_ids.size()),
                batch.rollout_log_probs.begin() + packed.response_begin);
  }
  set_learner_digests(pack.invocations, batch);
  if (teacher_width > 0) {
    batch.teacher_rows_RE = at::zeros({static_cast<std::int64_t>(num_rows), teacher_width}, dtype);
    if (dtype == at::kDouble) {
      fill_teacher_rows<double>(batch, invocations);
    } else {
      fill_teacher_rows<float>(batch, invocations);
    }
  }
  return batch;
}

}  // namespace

Expected<void> check_scores(const ScoredInvocation& scored, std::int64_t teacher_width) {
  const HostTensor& hidden = scored.scores->hidden;
  if ((hidden.dtype != DType::float32 && hidden.dtype != DType::float64) || hidden.shape.size() != 2 ||
      hidden.shape[1] != teacher_width ||
      hidden.bytes.size() != static_cast<std::size_t>(hidden.shape[0] * teacher_width) * size_bytes(hidden.dtype) ||
      scored.scores->row_valid.size() != static_cast<std::size_t>(hidden.shape[0])) {
    return unexpected(ErrorCode::shape_mismatch,
                      name_of(*scored.invocation) + ": teacher rows of type " + std::string(to_string(hidden.dtype)) +
                          " and width " + std::to_string(hidden.shape.size() == 2 ? hidden.shape[1] : 0) +
                          ", the head takes float32 or float64 of width " + std::to_string(teacher_width));
  }
  const auto num_needed = static_cast<std::int64_t>(scored.invocation->response_token_ids.size());
  if (scored.row_begin + num_needed > hidden.shape[0]) {
    return unexpected(ErrorCode::row_count_mismatch,
                      name_of(*scored.invocation) + ": rows " + std::to_string(scored.row_begin) + " to " +
                          std::to_string(scored.row_begin + num_needed) + " of teacher scores that have " +
                          std::to_string(hidden.shape[0]));
  }
  return {};
}

Expected<std::vector<MicroBatch>> make_micro_batches(std::span<const ScoredInvocation> invocations,
                                                     std::span<const PackedBatch> packs, std::int64_t teacher_width,
                                                     at::ScalarType dtype) {
  for (const ScoredInvocation& scored : invocations) {
    if (teacher_width > 0) {
      MEMOPD_RETURN_IF_ERROR(check_scores(scored, teacher_width));
    }
  }
  std::vector<MicroBatch> batches;
  std::size_t begin = 0;
  for (const PackedBatch& packed : packs) {
    MEMOPD_CHECK(begin + packed.invocations.size() <= invocations.size(), "packs of more invocations than were given");
    Expected<MicroBatch> batch =
        make_micro_batch(packed, invocations.subspan(begin, packed.invocations.size()), teacher_width, dtype);
    if (!batch) {
      return unexpected(batch.error());
    }
    batches.push_back(std::move(*batch));
    begin += packed.invocations.size();
  }
  return batches;
}

}  // namespace memopd

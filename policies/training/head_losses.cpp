#include "policies/training/head_losses.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "policies/model/row_products.hpp"
#include "policies/training/divergence_row.hpp"
#include "policies/training/softmax_row.hpp"

namespace memopd {

Expected<Divergence> parse_divergence(std::string_view name) {
  if (name == "forward_kl") {
    return Divergence::forward_kl;
  }
  if (name == "reverse_kl") {
    return Divergence::reverse_kl;
  }
  if (name == "jsd") {
    return Divergence::jsd;
  }
  return unexpected(ErrorCode::invalid_argument,
                    "divergence \"" + std::string(name) + "\" is none of forward_kl, reverse_kl, jsd");
}

namespace {

using detail::SoftmaxRow;

/// Rows [begin, end) of a micro-batch with their logits; dlogits replace the student's when `has_gradient`.
template <class T>
struct Chunk {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  T* logits_CV = nullptr;
  const T* teacher_logits_CV = nullptr;
  T* scratch_6V = nullptr;
  bool has_gradient = false;
};

/// Derivative of the weighted policy loss by the row's log-prob.
[[gnu::always_inline]] inline double policy_slope(const HeadLossOptions& options, const HeadRows& rows,
                                                  std::int64_t row, HeadRowValues& values) {
  const auto r = static_cast<std::size_t>(row);
  switch (options.policy_loss) {
    case PolicyLoss::none:
      return 0;
    case PolicyLoss::cross_entropy:
      return -rows.policy_weights[r];
    case PolicyLoss::ppo:
      values.ppo[r] = ppo_term(values.log_probs[r], rows.old_log_probs[r], rows.advantages[r], options.ppo);
      return rows.policy_weights[r] * options.ppo.coef * values.ppo[r].d_log_prob;
  }
  return 0;
}

/// Distributions of one row: the student's at both temperatures, the teacher's.
template <class T>
struct RowDistributions {
  SoftmaxRow<T> policy;   ///< at sampling_temperature
  SoftmaxRow<T> student;  ///< at opd_temperature; the same storage if the temperatures are equal
  SoftmaxRow<T> teacher;
};

template <class T>
[[gnu::always_inline]] inline RowDistributions<T> distributions_in(T* scratch_6V, const HeadLossOptions& options) {
  const std::int64_t num_ids = options.scored_vocab;
  const SoftmaxRow<T> policy{scratch_6V, scratch_6V + num_ids};
  const bool is_one_temperature = options.opd_temperature == options.sampling_temperature;
  return {policy,
          is_one_temperature ? policy : SoftmaxRow<T>{scratch_6V + 2 * num_ids, scratch_6V + 3 * num_ids},
          {scratch_6V + 4 * num_ids, scratch_6V + 5 * num_ids}};
}

/// Replaces the logits of a row whose distributions are known by the gradient of all its losses.
template <class T>
[[gnu::always_inline]] inline void write_gradient(const HeadLossOptions& options, const HeadRows& rows,
                                                  std::int64_t row, const RowDistributions<T>& row_distributions,
                                                  bool has_teacher, T* logits, HeadRowValues& values) {
  const auto r = static_cast<std::size_t>(row);
  const double slope = policy_slope(options, rows, row, values);
  const double entropy_slope =
      options.policy_loss == PolicyLoss::ppo ? -rows.policy_weights[r] * options.ppo.entropy_coef : 0;
  detail::policy_gradient_row(row_distributions.policy, options.scored_vocab, rows.token_ids[r],
                              static_cast<T>(slope / options.sampling_temperature),
                              static_cast<T>(entropy_slope / options.sampling_temperature),
                              static_cast<T>(values.entropies[r]), logits);
  if (has_teacher) {
    const auto scale = static_cast<T>(rows.opd_weight * options.opd_coef / options.opd_temperature);
    values.divergences[r] = static_cast<double>(
        detail::divergence_row(options.divergence, static_cast<T>(options.beta), row_distributions.teacher,
                               row_distributions.student, options.scored_vocab, scale, logits));
  }
}

template <class T>
[[gnu::always_inline]] inline void process_row(const HeadLossOptions& options, const HeadRows& rows,
                                               const Chunk<T>& chunk, std::int64_t row, HeadRowValues& values) {
  const auto r = static_cast<std::size_t>(row);
  const std::int64_t num_ids = options.scored_vocab;
  const std::int64_t offset = (row - chunk.begin) * num_ids;
  T* const logits = chunk.logits_CV + offset;
  const RowDistributions<T> row_distributions = distributions_in(chunk.scratch_6V, options);
  const bool has_teacher = chunk.teacher_logits_CV != nullptr;
  const auto opd_temperature = static_cast<T>(options.opd_temperature);

  bool is_included = rows.is_included[r] != 0;
  if (is_included && has_teacher) {
    is_included =
        detail::softmax_row(chunk.teacher_logits_CV + offset, num_ids, opd_temperature, row_distributions.teacher);
    values.is_teacher_finite[r] = is_included ? 1 : 0;
  }
  if (!is_included) {
    std::fill_n(logits, chunk.has_gradient ? num_ids : 0, T{0});
    return;
  }
  if (!detail::softmax_row(logits, num_ids, static_cast<T>(options.sampling_temperature), row_distributions.policy)) {
    // The student itself is broken here: NaN reaches the gradient, where the update is skipped and counted.
    values.log_probs[r] = std::numeric_limits<double>::quiet_NaN();
    std::fill_n(logits, chunk.has_gradient ? num_ids : 0, std::numeric_limits<T>::quiet_NaN());
    return;
  }
  values.log_probs[r] = static_cast<double>(row_distributions.policy.log_probs[rows.token_ids[r]]);
  values.entropies[r] = static_cast<double>(detail::entropy_row(row_distributions.policy, num_ids));
  if (!chunk.has_gradient) {
    return;
  }
  if (has_teacher && row_distributions.student.probs != row_distributions.policy.probs) {
    detail::softmax_row(logits, num_ids, opd_temperature, row_distributions.student);
  }
  write_gradient(options, rows, row, row_distributions, has_teacher, logits, values);
}

template <class T>
[[gnu::always_inline]] inline void process_rows(const HeadLossOptions& options, const HeadRows& rows,
                                                const Chunk<T>& chunk, HeadRowValues& values) {
  for (std::int64_t row = chunk.begin; row < chunk.end; ++row) {
    process_row(options, rows, chunk, row, values);
  }
}

#if defined(__x86_64__)
// The binary is built for any x86-64; the loops are worth a second copy for processors with AVX2 and FMA.
__attribute__((target("avx2,fma"))) void process_chunk_avx2(const HeadLossOptions& options, const HeadRows& rows,
                                                            const Chunk<float>& chunk, HeadRowValues& values) {
  process_rows(options, rows, chunk, values);
}
#endif

void process_chunk(const HeadLossOptions& options, const HeadRows& rows, const Chunk<float>& chunk,
                   HeadRowValues& values) {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (has_avx2) {
    process_chunk_avx2(options, rows, chunk, values);
    return;
  }
#endif
  process_rows(options, rows, chunk, values);
}

void process_chunk(const HeadLossOptions& options, const HeadRows& rows, const Chunk<double>& chunk,
                   HeadRowValues& values) {
  process_rows(options, rows, chunk, values);
}

template <class T>
void run_chunks(const HeadLossOptions& options, const HeadRows& rows, HeadRowValues& values, HeadGradients* gradients) {
  const std::int64_t num_rows = rows.rows_RD.size(0);
  const std::int64_t num_ids = options.scored_vocab;
  const std::int64_t chunk_rows = std::min<std::int64_t>(options.chunk_rows, num_rows);
  const bool has_teacher = gradients != nullptr && options.opd_coef > 0;
  const at::Tensor head_VD = rows.head_VD.narrow(0, 0, num_ids);
  const at::Tensor logits_buffer_CV = at::empty({chunk_rows, num_ids}, rows.rows_RD.options());
  const at::Tensor teacher_buffer_CV = has_teacher ? at::empty_like(logits_buffer_CV) : at::Tensor();
  const at::Tensor teacher_head_VE = has_teacher ? rows.teacher_head_VE.narrow(0, 0, num_ids) : at::Tensor();
  std::vector<T> scratch(static_cast<std::size_t>(6 * num_ids));
  for (std::int64_t begin = 0; begin < num_rows; begin += chunk_rows) {
    const std::int64_t count = std::min(chunk_rows, num_rows - begin);
    const at::Tensor rows_CD = rows.rows_RD.narrow(0, begin, count);
    at::Tensor logits_CV = logits_buffer_CV.narrow(0, 0, count);
    multiply_rows_out(logits_CV, rows_CD, head_VD, options.is_row_exact);
    Chunk<T> chunk{begin, begin + count, logits_CV.data_ptr<T>(), nullptr, scratch.data(), gradients != nullptr};
    if (has_teacher) {
      at::Tensor teacher_logits_CV = teacher_buffer_CV.narrow(0, 0, count);
      multiply_rows_out(teacher_logits_CV, rows.teacher_rows_RE.narrow(0, begin, count), teacher_head_VE,
                        options.is_row_exact);
      chunk.teacher_logits_CV = teacher_logits_CV.data_ptr<T>();
    }
    process_chunk(options, rows, chunk, values);
    if (gradients != nullptr) {
      at::Tensor d_rows_CD = gradients->d_rows_RD.narrow(0, begin, count);
      at::mm_out(d_rows_CD, logits_CV, head_VD);
      at::Tensor d_head_VD = gradients->d_head_VD.narrow(0, 0, num_ids);
      at::addmm_out(d_head_VD, d_head_VD, logits_CV.t(), rows_CD);
    }
  }
}

HeadRowValues make_values(const HeadRows& rows, bool has_ppo) {
  const auto num_rows = static_cast<std::size_t>(rows.rows_RD.size(0));
  MEMOPD_CHECK(rows.token_ids.size() == num_rows && rows.is_included.size() == num_rows,
               "head losses need one token and one flag per row");
  HeadRowValues values;
  values.log_probs.assign(num_rows, 0);
  values.entropies.assign(num_rows, 0);
  values.divergences.assign(num_rows, 0);
  values.ppo.assign(has_ppo ? num_rows : 0, {});
  values.is_teacher_finite.assign(num_rows, 1);
  return values;
}

void run(const HeadLossOptions& options, const HeadRows& rows, HeadRowValues& values, HeadGradients* gradients) {
  if (rows.rows_RD.size(0) == 0) {
    return;
  }
  if (rows.rows_RD.scalar_type() == at::kDouble) {
    run_chunks<double>(options, rows, values, gradients);
  } else {
    run_chunks<float>(options, rows, values, gradients);
  }
}

}  // namespace

HeadRowValues head_log_probs(const HeadLossOptions& options, const HeadRows& rows) {
  HeadRowValues values = make_values(rows, false);
  run(options, rows, values, nullptr);
  return values;
}

HeadGradients head_losses(const HeadLossOptions& options, const HeadRows& rows) {
  HeadGradients gradients{.values = make_values(rows, options.policy_loss == PolicyLoss::ppo),
                          .d_rows_RD = at::zeros_like(rows.rows_RD),
                          .d_head_VD = at::zeros_like(rows.head_VD)};
  HeadRowValues values = std::move(gradients.values);
  run(options, rows, values, &gradients);
  gradients.values = std::move(values);
  return gradients;
}

}  // namespace memopd

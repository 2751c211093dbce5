// The divergence between teacher p and student q at one response row, over the whole support, and its closed-form derivative by the student's logits z (already divided by opd.temperature).
//
//   forward_kl   sum p log(p/q)                              q - p
//   reverse_kl   L = sum q log(q/p)                          q (log(q/p) - L)
//   jsd(beta)    beta KL(p,m) + (1-beta) KL(q,m)             (1-beta) q (log(q/m) - sum q log(q/m))
//                m = (1-beta) q + beta p
//
// V ids of the support. Nothing is clamped at zero: over a complete support a divergence is not negative, and a clamp
// would hide a support that is not complete. A mapping to raw logits divides the derivative by the temperature once.
#pragma once

#include <cmath>
#include <cstdint>

#include "policies/training/opd.hpp"
#include "policies/training/softmax_row.hpp"

namespace memopd::detail {

/// p log(p/q) summed over the ids; p and q complete distributions.
template <class T>
[[gnu::always_inline]] inline T kl_row(const SoftmaxRow<T>& p, const SoftmaxRow<T>& q, std::int64_t num_ids) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < num_ids; ++i) {
    sum += p.probs[i] * (p.log_probs[i] - q.log_probs[i]);
  }
  return sum;
}

/// Value of D and d_logits += scale * dD/dz.
template <class T>
[[gnu::always_inline]] inline T forward_kl_row(const SoftmaxRow<T>& p, const SoftmaxRow<T>& q, std::int64_t num_ids,
                                               T scale, T* d_logits) {
#pragma omp simd
  for (std::int64_t i = 0; i < num_ids; ++i) {
    d_logits[i] += scale * (q.probs[i] - p.probs[i]);
  }
  return kl_row(p, q, num_ids);
}

template <class T>
[[gnu::always_inline]] inline T reverse_kl_row(const SoftmaxRow<T>& p, const SoftmaxRow<T>& q, std::int64_t num_ids,
                                               T scale, T* d_logits) {
  const T value = kl_row(q, p, num_ids);
#pragma omp simd
  for (std::int64_t i = 0; i < num_ids; ++i) {
    d_logits[i] += scale * q.probs[i] * (q.log_probs[i] - p.log_probs[i] - value);
  }
  return value;
}

template <class T>
[[gnu::always_inline]] inline T jsd_row(const SoftmaxRow<T>& p, const SoftmaxRow<T>& q, std::int64_t num_ids, T beta,
                                        T scale, T* d_logits) {
  // Where both probabilities vanish the id has no part in m; its terms are zero, not 0 * log 0.
  const auto log_mixture = [&](std::int64_t i) {
    const T m = (1 - beta) * q.probs[i] + beta * p.probs[i];
    return m > 0 ? std::log(m) : q.log_probs[i];
  };
  T kl_pm = 0;
  T kl_qm = 0;
  for (std::int64_t i = 0; i < num_ids; ++i) {
    const T log_m = log_mixture(i);
    kl_pm += p.probs[i] > 0 ? p.probs[i] * (p.log_probs[i] - log_m) : 0;
    kl_qm += q.probs[i] > 0 ? q.probs[i] * (q.log_probs[i] - log_m) : 0;
  }
  for (std::int64_t i = 0; i < num_ids; ++i) {
    d_logits[i] += scale * (1 - beta) * q.probs[i] * (q.log_probs[i] - log_mixture(i) - kl_qm);
  }
  return beta * kl_pm + (1 - beta) * kl_qm;
}

template <class T>
[[gnu::always_inline]] inline T divergence_row(Divergence divergence, T beta, const SoftmaxRow<T>& p,
                                               const SoftmaxRow<T>& q, std::int64_t num_ids, T scale, T* d_logits) {
  switch (divergence) {
    case Divergence::forward_kl:
      return forward_kl_row(p, q, num_ids, scale, d_logits);
    case Divergence::reverse_kl:
      return reverse_kl_row(p, q, num_ids, scale, d_logits);
    case Divergence::jsd:
      return jsd_row(p, q, num_ids, beta, scale, d_logits);
  }
  return 0;
}

}  // namespace memopd::detail

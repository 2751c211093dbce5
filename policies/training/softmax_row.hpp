// Softmax of one row of logits and what the losses need of it, as plain loops that compilers vectorise.
//
// Everything is inlined into the loop over rows, which is compiled for several instruction sets (head_losses.cpp).
// A logit of -inf counts as kMaskedLogit below the row's largest: its probability is zero in fp32, and its log-probability
// stays finite, so that no loss and no gradient is 0 * inf.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace memopd::detail {

/// Distance in nats from the row's largest logit at which a logit of -inf stands.
inline constexpr double kMaskedLogit = -100.0;

/// exp for arguments <= 0; below -87 zero. Relative error under 2e-7 (degree-6 polynomial after range reduction).
[[gnu::always_inline]] inline float exp_of_negative(float x) {
  constexpr float kShift = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer in the low mantissa bits
  constexpr std::int32_t kShiftBits = 0x4B400000;
  const float bounded = x > -87.0F ? x : -87.0F;
  const float shifted = bounded * 1.44269504F + kShift;
  const float n = shifted - kShift;
  const float r = (bounded - n * 0.693145752F) - n * 1.42860677e-6F;
  float poly = 1.0F / 720.0F;
  poly = poly * r + 1.0F / 120.0F;
  poly = poly * r + 1.0F / 24.0F;
  poly = poly * r + 1.0F / 6.0F;
  poly = poly * r + 0.5F;
  poly = poly * r + 1.0F;
  poly = poly * r + 1.0F;
  const float scale = std::bit_cast<float>((std::bit_cast<std::int32_t>(shifted) - kShiftBits + 127) << 23);
  return x > -87.0F ? poly * scale : 0.0F;
}
[[gnu::always_inline]] inline double exp_of_negative(double x) { return std::exp(x); }

/// log_probs[i] and probs[i] of V ids; storage of the caller.
template <class T>
struct SoftmaxRow {
  T* log_probs = nullptr;
  T* probs = nullptr;
};

/// Fills `row` with the softmax of logits / temperature.
/// @return  false if a logit is NaN or +inf, or all are -inf; `row` is unspecified then
template <class T>
[[gnu::always_inline]] inline bool softmax_row(const T* logits, std::int64_t num_ids, T temperature,
                                               const SoftmaxRow<T>& row) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  T largest = -kInfinity;
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < num_ids; ++i) {
    largest = logits[i] > largest ? logits[i] : largest;
  }
  const T inverse = 1 / temperature;
  T normaliser = 0;
  T witness = 0;  // NaN iff a shifted logit is: exp_of_negative does not pass NaN on
#pragma omp simd reduction(+ : normaliser, witness)
  for (std::int64_t i = 0; i < num_ids; ++i) {
    const T shifted = logits[i] == -kInfinity ? static_cast<T>(kMaskedLogit) : (logits[i] - largest) * inverse;
    const T e = exp_of_negative(shifted);
    row.log_probs[i] = shifted;
    row.probs[i] = e;
    normaliser += e;
    witness += shifted * T{0};
  }
  if (!(std::isfinite(normaliser) && std::isfinite(largest) && witness == T{0})) {
    return false;
  }
  const T log_normaliser = std::log(normaliser);
  const T scale = 1 / normaliser;
#pragma omp simd
  for (std::int64_t i = 0; i < num_ids; ++i) {
    row.log_probs[i] -= log_normaliser;
    row.probs[i] *= scale;
  }
  return true;
}

template <class T>
[[gnu::always_inline]] inline T entropy_row(const SoftmaxRow<T>& row, std::int64_t num_ids) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < num_ids; ++i) {
    sum += row.probs[i] * row.log_probs[i];
  }
  return -sum;
}

/// d_logits = log_prob_scale * d log_probs[token] / dz + entropy_scale * d entropy / dz, z = logits / temperature.
template <class T>
[[gnu::always_inline]] inline void policy_gradient_row(const SoftmaxRow<T>& row, std::int64_t num_ids,
                                                       std::int64_t token, T log_prob_scale, T entropy_scale, T entropy,
                                                       T* d_logits) {
#pragma omp simd
  for (std::int64_t i = 0; i < num_ids; ++i) {
    d_logits[i] = -row.probs[i] * (log_prob_scale + entropy_scale * (row.log_probs[i] + entropy));
  }
  d_logits[token] += log_prob_scale;
}

}  // namespace memopd::detail

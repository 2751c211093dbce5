#include "policies/model/row_kernels.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>

// One body, two machine codes: the loader picks by the processor. Everything a clone calls is inlined into it.
#define MEMOPD_CLONES __attribute__((target_clones("default", "avx2")))
#define MEMOPD_INLINE inline __attribute__((always_inline))

namespace memopd {

namespace {

/// Independent partial sums, so that the loop vectorises without reordering by the compiler.
constexpr std::int64_t kLanes = 16;

template <class T, class F>
MEMOPD_INLINE T sum_over(std::int64_t n, F term) {
  T lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  }
  for (std::int64_t lane = 0; i < n; ++i, ++lane) lanes[lane] += term(i);
  for (std::int64_t half = kLanes / 2; half >= 1; half /= 2) {
    for (std::int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

/// exp for float: 2^n * p(r), |r| <= ln 2 / 2, degree 6. NaN stays NaN; below -87 gives 0.
/// Source: Cephes expf (Moshier).
MEMOPD_INLINE float exponential(float x) {
  constexpr float kLow = -87.0f;
  constexpr float kHigh = 88.0f;
  constexpr float kRound = 12582912.0f;       // 1.5 * 2^23: adding it rounds to an integer held in the low bits
  const float below = x > kHigh ? kHigh : x;  // comparisons with NaN are false: it goes through all of this
  const float bounded = below < kLow ? kLow : below;
  const float shifted = bounded * 1.44269504088896341f + kRound;
  const float n = shifted - kRound;
  const float r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = (p * r) * r + r + 1.0f;
  const float power = std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) + 127U) << 23U);
  const float result = p * power;
  return x < kLow ? 0.0f : result;
}
MEMOPD_INLINE double exponential(double x) { return std::exp(x); }

template <class T>
MEMOPD_INLINE void rms_norm_body(const T* x, const T* weight, T eps, std::int64_t m, std::int64_t d, T* y,
                                 T* inverse_rms) {
  for (std::int64_t row = 0; row < m; ++row) {
    const T* xr = x + row * d;
    T* yr = y + row * d;
    const T mean = sum_over<T>(d, [xr](std::int64_t i) { return xr[i] * xr[i]; }) / static_cast<T>(d);
    const T inverse = T{1} / std::sqrt(mean + eps);
    for (std::int64_t i = 0; i < d; ++i) yr[i] = xr[i] * inverse * weight[i];
    if (inverse_rms != nullptr) inverse_rms[row] = inverse;
  }
}

template <class T>
MEMOPD_INLINE void rms_norm_backward_body(const T* dy, const T* x, const T* weight, const T* inverse_rms,
                                          std::int64_t m, std::int64_t d, T* dx, T* dweight) {
  for (std::int64_t row = 0; row < m; ++row) {
    const T* dyr = dy + row * d;
    const T* xr = x + row * d;
    T* dxr = dx + row * d;
    const T inverse = inverse_rms[row];
    const T dot = sum_over<T>(d, [=](std::int64_t i) { return dyr[i] * weight[i] * xr[i]; });
    const T shrink = dot * inverse * inverse * inverse / static_cast<T>(d);
    for (std::int64_t i = 0; i < d; ++i) {
      dxr[i] += dyr[i] * weight[i] * inverse - xr[i] * shrink;
      dweight[i] += dyr[i] * xr[i] * inverse;
    }
  }
}

template <class T>
MEMOPD_INLINE void norm_heads_body(const T* x, std::int64_t stride, const T* weight, T eps, std::int64_t m,
                                   std::int64_t h, std::int64_t dh, T* y, T* inverse_rms) {
  for (std::int64_t row = 0; row < m; ++row) {
    rms_norm_body(x + row * stride, weight, eps, h, dh, y + row * stride,
                  inverse_rms == nullptr ? nullptr : inverse_rms + row * h);
  }
}

template <class T>
MEMOPD_INLINE void norm_heads_backward_body(T* dy, const T* x, std::int64_t stride, const T* weight,
                                            const T* inverse_rms, std::int64_t m, std::int64_t h, std::int64_t dh,
                                            T* dweight) {
  for (std::int64_t head = 0; head < m * h; ++head) {
    const std::int64_t begin = head / h * stride + head % h * dh;
    T* dyr = dy + begin;
    const T* xr = x + begin;
    const T inverse = inverse_rms[head];
    const T dot = sum_over<T>(dh, [=](std::int64_t i) { return dyr[i] * weight[i] * xr[i]; });
    const T shrink = dot * inverse * inverse * inverse / static_cast<T>(dh);
    for (std::int64_t i = 0; i < dh; ++i) {
      dweight[i] += dyr[i] * xr[i] * inverse;
      dyr[i] = dyr[i] * weight[i] * inverse - xr[i] * shrink;
    }
  }
}

template <class T>
MEMOPD_INLINE void rotate_body(T* x, std::int64_t stride, const T* rope, std::int64_t m, std::int64_t h,
                               std::int64_t dh, T direction) {
  const std::int64_t half = dh / 2;
  for (std::int64_t row = 0; row < m; ++row) {
    const T* cosine = rope + row * dh;
    const T* sine = cosine + half;
    for (std::int64_t head = 0; head < h; ++head) {
      T* first = x + row * stride + head * dh;
      T* second = first + half;
      for (std::int64_t i = 0; i < half; ++i) {
        const T a = first[i];
        const T b = second[i];
        const T s = direction * sine[i];
        first[i] = a * cosine[i] - b * s;
        second[i] = b * cosine[i] + a * s;
      }
    }
  }
}

template <class T>
MEMOPD_INLINE void swiglu_body(const T* gate_up, std::int64_t m, std::int64_t f, T* y) {
  for (std::int64_t row = 0; row < m; ++row) {
    const T* gate = gate_up + row * 2 * f;
    const T* up = gate + f;
    T* yr = y + row * f;
    for (std::int64_t i = 0; i < f; ++i) yr[i] = gate[i] / (T{1} + exponential(-gate[i])) * up[i];
  }
}

template <class T>
MEMOPD_INLINE void swiglu_backward_body(const T* dy, const T* gate_up, std::int64_t m, std::int64_t f, T* dgate_up) {
  for (std::int64_t row = 0; row < m; ++row) {
    const T* gate = gate_up + row * 2 * f;
    const T* up = gate + f;
    const T* dyr = dy + row * f;
    T* dgate = dgate_up + row * 2 * f;
    T* dup = dgate + f;
    for (std::int64_t i = 0; i < f; ++i) {
      const T g = gate[i];
      const T u = up[i];
      const T sigmoid = T{1} / (T{1} + exponential(-g));
      dgate[i] = dyr[i] * u * sigmoid * (T{1} + g * (T{1} - sigmoid));
      dup[i] = dyr[i] * g * sigmoid;
    }
  }
}

}  // namespace

#define MEMOPD_ROW_KERNELS(T)                                                                                          \
  MEMOPD_CLONES static void rms_norm_clones(const T* x, const T* weight, T eps, std::int64_t m, std::int64_t d, T* y,  \
                                            T* inverse_rms) {                                                          \
    rms_norm_body(x, weight, eps, m, d, y, inverse_rms);                                                               \
  }                                                                                                                    \
  MEMOPD_CLONES static void rms_norm_backward_clones(const T* dy, const T* x, const T* weight, const T* inverse_rms,   \
                                                     std::int64_t m, std::int64_t d, T* dx, T* dweight) {              \
    rms_norm_backward_body(dy, x, weight, inverse_rms, m, d, dx, dweight);                                             \
  }                                                                                                                    \
  MEMOPD_CLONES static void norm_heads_clones(const T* x, std::int64_t stride, const T* weight, T eps, std::int64_t m, \
                                              std::int64_t h, std::int64_t dh, T* y, T* inverse_rms) {                 \
    norm_heads_body(x, stride, weight, eps, m, h, dh, y, inverse_rms);                                                 \
  }                                                                                                                    \
  MEMOPD_CLONES static void norm_heads_backward_clones(T* dy, const T* x, std::int64_t stride, const T* weight,        \
                                                       const T* inverse_rms, std::int64_t m, std::int64_t h,           \
                                                       std::int64_t dh, T* dweight) {                                  \
    norm_heads_backward_body(dy, x, stride, weight, inverse_rms, m, h, dh, dweight);                                   \
  }                                                                                                                    \
  MEMOPD_CLONES static void rotate_clones(T* x, std::int64_t stride, const T* rope, std::int64_t m, std::int64_t h,    \
                                          std::int64_t dh, T direction) {                                              \
    rotate_body(x, stride, rope, m, h, dh, direction);                                                                 \
  }                                                                                                                    \
  MEMOPD_CLONES static void swiglu_clones(const T* gate_up, std::int64_t m, std::int64_t f, T* y) {                    \
    swiglu_body(gate_up, m, f, y);                                                                                     \
  }                                                                                                                    \
  MEMOPD_CLONES static void swiglu_backward_clones(const T* dy, const T* gate_up, std::int64_t m, std::int64_t f,      \
                                                   T* dgate_up) {                                                      \
    swiglu_backward_body(dy, gate_up, m, f, dgate_up);                                                                 \
  }                                                                                                                    \
  template <>                                                                                                          \
  void rms_norm_rows<T>(const T* x, const T* weight, T eps, std::int64_t m, std::int64_t d, T* y, T* inverse_rms) {    \
    rms_norm_clones(x, weight, eps, m, d, y, inverse_rms);                                                             \
  }                                                                                                                    \
  template <>                                                                                                          \
  void rms_norm_rows_backward<T>(const T* dy, const T* x, const T* weight, const T* inverse_rms, std::int64_t m,       \
                                 std::int64_t d, T* dx, T* dweight) {                                                  \
    rms_norm_backward_clones(dy, x, weight, inverse_rms, m, d, dx, dweight);                                           \
  }                                                                                                                    \
  template <>                                                                                                          \
  void rms_norm_heads<T>(const T* x, std::int64_t stride, const T* weight, T eps, std::int64_t m, std::int64_t h,      \
                         std::int64_t dh, T* y, T* inverse_rms) {                                                      \
    norm_heads_clones(x, stride, weight, eps, m, h, dh, y, inverse_rms);                                               \
  }                                                                                                                    \
  template <>                                                                                                          \
  void rms_norm_heads_backward<T>(T * dy, const T* x, std::int64_t stride, const T* weight, const T* inverse_rms,      \
                                  std::int64_t m, std::int64_t h, std::int64_t dh, T* dweight) {                       \
    norm_heads_backward_clones(dy, x, stride, weight, inverse_rms, m, h, dh, dweight);                                 \
  }                                                                                                                    \
  template <>                                                                                                          \
  void rotate_rows<T>(T * x, std::int64_t stride, const T* rope, std::int64_t m, std::int64_t h, std::int64_t dh,      \
                      T direction) {                                                                                   \
    rotate_clones(x, stride, rope, m, h, dh, direction);                                                               \
  }                                                                                                                    \
  template <>                                                                                                          \
  void swiglu_rows<T>(const T* gate_up, std::int64_t m, std::int64_t f, T* y) {                                        \
    swiglu_clones(gate_up, m, f, y);                                                                                   \
  }                                                                                                                    \
  template <>                                                                                                          \
  void swiglu_rows_backward<T>(const T* dy, const T* gate_up, std::int64_t m, std::int64_t f, T* dgate_up) {           \
    swiglu_backward_clones(dy, gate_up, m, f, dgate_up);                                                               \
  }

MEMOPD_ROW_KERNELS(float)
MEMOPD_ROW_KERNELS(double)
#undef MEMOPD_ROW_KERNELS

MEMOPD_CLONES double exp_row(const float* x, float shift, float scale, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = exponential((x[i] - shift) * scale);
  return sum_over<double>(n, [out](std::int64_t i) { return static_cast<double>(out[i]); });
}

}  // namespace memopd

#include "policies/model/attention_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace memopd::detail {
namespace {

// Every function here is inlined into the entry points at the end, each of which is compiled for its own target.
#define MEMOPD_INLINE [[gnu::always_inline]] inline

/// Vectors of `Bytes`, what one register of the target holds: the compiler lowers wider ones badly.
template <class T, std::ptrdiff_t Bytes>
struct Simd {
  using Integer = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  typedef T Vector __attribute__((vector_size(Bytes)));
  typedef T Unaligned __attribute__((vector_size(Bytes), aligned(sizeof(T)), may_alias));
  typedef Integer Integers __attribute__((vector_size(Bytes)));
  static constexpr std::ptrdiff_t kCount = Bytes / static_cast<std::ptrdiff_t>(sizeof(T));

  MEMOPD_INLINE static const Unaligned& at(const T* data) { return *reinterpret_cast<const Unaligned*>(data); }
  MEMOPD_INLINE static Unaligned& at(T* data) { return *reinterpret_cast<Unaligned*>(data); }
};

/// exp for x <= 0 (or NaN), in place. Cody-Waite reduction and the polynomial of Cephes expf: error below 2 ulp; below
/// -87, where the result would be subnormal, 0.
template <class S>
MEMOPD_INLINE void exp_of_floats(typename S::Vector& x) {
  using Vector = typename S::Vector;
  using Integers = typename S::Integers;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to the nearest integer, held in the low bits
  const auto is_zero = x < -87.0F;
  const Vector y = is_zero ? x - x : x;
  const Vector shifted = y * 1.44269504088896341F + kRound;
  const Vector n = shifted - kRound;
  const Vector r = (y - n * 0.693359375F) - n * -2.12194440e-4F;
  Vector p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  const Integers power = (__builtin_bit_cast(Integers, shifted) << 23) + (127 << 23);
  x = is_zero ? Vector{} : p * __builtin_bit_cast(Vector, power);
}

template <class T, class S>
MEMOPD_INLINE void exp_in_place(typename S::Vector& x) {
  if constexpr (std::is_same_v<T, float>) {
    exp_of_floats<S>(x);
  } else {
    for (std::ptrdiff_t lane = 0; lane < S::kCount; ++lane) {
      x[lane] = std::exp(x[lane]);
    }
  }
}

/// c[r] (+)= sum_l a(r, l) * b(l) for R rows and N vectors; a and b give an element and a row.
template <class T, class S, int R, int N, class Weight, class Row>
MEMOPD_INLINE void multiply_tile(std::ptrdiff_t begin, std::ptrdiff_t end, const Weight& a, const Row& b,
                                 const std::array<T*, 4>& c, bool adds) {
  using Vector = typename S::Vector;
  Vector sum[R][N];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      sum[r][n] = adds ? Vector(S::at(c[static_cast<std::size_t>(r)] + n * S::kCount)) : Vector{};
    }
  }
  for (std::ptrdiff_t l = begin; l < end; ++l) {
    const T* row = b(l);
    Vector column[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      column[n] = S::at(row + n * S::kCount);
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const T weight = a(r, l);
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) {
        sum[r][n] += weight * column[n];
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      S::at(c[static_cast<std::size_t>(r)] + n * S::kCount) = sum[r][n];
    }
  }
}

/// Vectors to take next of `remaining`: 3 keep all registers busy, 4 are better taken as 2 and 2 than as 3 and 1.
MEMOPD_INLINE std::ptrdiff_t chunk_of(std::ptrdiff_t remaining) {
  return remaining == 4 ? 2 : std::min<std::ptrdiff_t>(remaining, 3);
}

template <class T, class S, int R>
MEMOPD_INLINE void score_rows(const ScoreTask<T>& task, std::ptrdiff_t key) {
  std::array<const T*, 4> rows{};
  std::array<T*, 4> out{};
  for (int r = 0; r < R; ++r) {
    rows[static_cast<std::size_t>(r)] = task.rows + task.index[key + r] * task.row_stride;
  }
  const auto weight = [&](int r, std::ptrdiff_t d) { return rows[static_cast<std::size_t>(r)][d]; };
  // Whole vectors of lanes before the key's own row see nothing of it.
  std::ptrdiff_t lane = std::max<std::ptrdiff_t>(0, key - task.num_chain) / S::kCount * S::kCount;
  while (lane < task.num_lanes) {
    for (int r = 0; r < R; ++r) {
      out[static_cast<std::size_t>(r)] = task.out + (key + r) * task.num_lanes + lane;
    }
    const auto row = [&](std::ptrdiff_t d) { return task.columns + d * task.num_lanes + lane; };
    const std::ptrdiff_t chunk = chunk_of((task.num_lanes - lane) / S::kCount);
    if (chunk == 3) {
      multiply_tile<T, S, R, 3>(0, task.depth, weight, row, out, false);
    } else if (chunk == 2) {
      multiply_tile<T, S, R, 2>(0, task.depth, weight, row, out, false);
    } else {
      multiply_tile<T, S, R, 1>(0, task.depth, weight, row, out, false);
    }
    lane += chunk * S::kCount;
  }
}

template <class T, class S>
MEMOPD_INLINE void scores_of(const ScoreTask<T>& task) {
  std::ptrdiff_t key = 0;
  for (; key + 4 <= task.num_keys; key += 4) {
    score_rows<T, S, 4>(task, key);
  }
  for (; key < task.num_keys; ++key) {
    score_rows<T, S, 1>(task, key);
  }
}

/// Rows [first, first + R), columns of one chunk, l in [begin, end).
template <class T, class S, int R>
MEMOPD_INLINE void mix_tile(const MixTask<T>& task, std::ptrdiff_t first, std::ptrdiff_t begin, std::ptrdiff_t end,
                            bool adds) {
  const T* weights = task.weights + first * task.weight_row;
  const auto weight = [&](int r, std::ptrdiff_t l) { return weights[r * task.weight_row + l * task.weight_step]; };
  std::array<T*, 4> out{};
  std::ptrdiff_t column = 0;
  while (column < task.width) {
    for (int r = 0; r < R; ++r) {
      out[static_cast<std::size_t>(r)] = task.out + task.out_index[first + r] * task.out_stride + column;
    }
    const auto row = [&](std::ptrdiff_t l) { return task.in + task.in_index[l] * task.in_stride + column; };
    const std::ptrdiff_t chunk = chunk_of((task.width - column) / S::kCount);
    if (chunk == 3) {
      multiply_tile<T, S, R, 3>(begin, end, weight, row, out, adds);
    } else if (chunk == 2) {
      multiply_tile<T, S, R, 2>(begin, end, weight, row, out, adds);
    } else {
      multiply_tile<T, S, R, 1>(begin, end, weight, row, out, adds);
    }
    column += chunk * S::kCount;
  }
}

template <class T>
MEMOPD_INLINE std::ptrdiff_t mix_begin(const MixTask<T>& task, std::ptrdiff_t row) {
  return std::max<std::ptrdiff_t>(0, row - task.begin_offset);
}
template <class T>
MEMOPD_INLINE std::ptrdiff_t mix_end(const MixTask<T>& task, std::ptrdiff_t row) {
  return std::min(task.end, row + 1 + task.end_offset);
}

/// Four rows go together where all of them take part; what only some do is added row by row, in order of l.
template <class T, class S>
MEMOPD_INLINE void mix_of(const MixTask<T>& task) {
  std::ptrdiff_t row = 0;
  for (; row + 4 <= task.num_rows; row += 4) {
    const std::ptrdiff_t begin = mix_begin(task, row + 3);
    const std::ptrdiff_t end = mix_end(task, row);
    if (begin >= end) {
      break;
    }
    bool adds = task.adds;
    if (mix_begin(task, row) < begin) {
      for (std::ptrdiff_t r = row; r < row + 4; ++r) {
        mix_tile<T, S, 1>(task, r, mix_begin(task, r), begin, task.adds);
      }
      adds = true;
    }
    mix_tile<T, S, 4>(task, row, begin, end, adds);
    for (std::ptrdiff_t r = row + 1; r < row + 4 && mix_end(task, r) > end; ++r) {
      mix_tile<T, S, 1>(task, r, end, mix_end(task, r), true);
    }
  }
  for (; row < task.num_rows; ++row) {
    mix_tile<T, S, 1>(task, row, mix_begin(task, row), mix_end(task, row), task.adds);
  }
}

/// Keys that at least one lane of the vector at `lane` sees.
MEMOPD_INLINE std::ptrdiff_t num_keys_seen(std::ptrdiff_t num_keys, std::ptrdiff_t num_chain, std::ptrdiff_t lane,
                                           std::ptrdiff_t lanes) {
  return std::min(num_keys, num_chain + lane + lanes);
}

/// Lanes of the vector at `lane` that do not see the block's own key `own_key` get `value`.
template <class T, class S>
MEMOPD_INLINE void mask_lanes(typename S::Vector& x, std::ptrdiff_t own_key, std::ptrdiff_t lane, T value) {
  typename S::Integers index;
  for (std::ptrdiff_t i = 0; i < S::kCount; ++i) {
    index[i] = static_cast<typename S::Integer>(lane + i);
  }
  x = index < static_cast<typename S::Integer>(own_key) ? typename S::Vector{} + value : x;
}

template <class T, class S>
MEMOPD_INLINE void softmax_of(const SoftmaxTask<T>& task) {
  using Vector = typename S::Vector;
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  for (std::ptrdiff_t lane = 0; lane < task.num_lanes; lane += S::kCount) {
    const std::ptrdiff_t num_keys = num_keys_seen(task.num_keys, task.num_chain, lane, S::kCount);
    const std::ptrdiff_t num_full = std::min(num_keys, task.num_chain + lane + 1);  // seen by every lane
    T* scores = task.scores + lane;
    Vector shift = Vector{} - kInfinity;
    if (task.finds_shift) {
      for (std::ptrdiff_t key = 0; key < num_keys; ++key) {
        Vector x = S::at(scores + key * task.num_lanes);
        if (key >= num_full) {
          mask_lanes<T, S>(x, key - task.num_chain, lane, -kInfinity);
        }
        shift = x > shift ? x : shift;
      }
      S::at(task.shift + lane) = shift;
    } else {
      shift = S::at(task.shift + lane);
    }
    Vector sum{};
    for (std::ptrdiff_t key = 0; key < num_keys; ++key) {
      Vector x = S::at(scores + key * task.num_lanes) - shift;
      exp_in_place<T, S>(x);
      if (key >= num_full) {
        mask_lanes<T, S>(x, key - task.num_chain, lane, T{0});
      }
      sum += x;
      S::at(scores + key * task.num_lanes) = x;
    }
    if (task.finds_shift) {
      S::at(task.sum + lane) = sum;
    }
  }
}

template <class T, class S>
MEMOPD_INLINE void softmax_gradient_of(const SoftmaxGradientTask<T>& task) {
  using Vector = typename S::Vector;
  for (std::ptrdiff_t lane = 0; lane < task.num_lanes; lane += S::kCount) {
    const std::ptrdiff_t num_keys = num_keys_seen(task.num_keys, task.num_chain, lane, S::kCount);
    const Vector mean = S::at(task.mean + lane);
    for (std::ptrdiff_t key = 0; key < num_keys; ++key) {
      const std::ptrdiff_t at = key * task.num_lanes + lane;
      const Vector gradient = S::at(task.gradients + at);
      S::at(task.gradients + at) = S::at(task.probabilities + at) * (gradient - mean) * task.scale;
    }
  }
}

/// scores of keys [key, key + N vectors).
template <class T, class S, int N>
MEMOPD_INLINE void score_columns(const RowTask<T>& task, std::ptrdiff_t key) {
  const auto weight = [&](int, std::ptrdiff_t d) { return task.query[d]; };
  const auto row = [&](std::ptrdiff_t d) { return task.keys + d * task.key_stride + key; };
  multiply_tile<T, S, 1, N>(0, task.depth, weight, row, {task.scores + key}, false);
}

/// Columns [column, column + N vectors) of the sum of values, each times its weight.
template <class T, class S, int N>
MEMOPD_INLINE void mix_columns(const RowTask<T>& task, std::ptrdiff_t column) {
  const auto weight = [&](int, std::ptrdiff_t key) { return task.scores[key]; };
  const auto row = [&](std::ptrdiff_t key) { return task.values + key * task.depth + column; };
  multiply_tile<T, S, 1, N>(0, task.num_keys, weight, row, {task.out + column}, false);
}

template <class T, class S>
MEMOPD_INLINE void score_keys(const RowTask<T>& task) {
  std::ptrdiff_t key = 0;
  for (; key + 4 * S::kCount <= task.num_keys; key += 4 * S::kCount) score_columns<T, S, 4>(task, key);
  for (; key + S::kCount <= task.num_keys; key += S::kCount) score_columns<T, S, 1>(task, key);
  for (; key < task.num_keys; ++key) {
    T sum{};
    for (std::ptrdiff_t d = 0; d < task.depth; ++d) sum += task.query[d] * task.keys[d * task.key_stride + key];
    task.scores[key] = sum;
  }
}

/// Turns scores into exp(score - maximum).
template <class T, class S>
MEMOPD_INLINE void exp_of_scores(const RowTask<T>& task) {
  using Vector = typename S::Vector;
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const std::ptrdiff_t padded = (task.num_keys + S::kCount - 1) / S::kCount * S::kCount;
  std::fill(task.scores + task.num_keys, task.scores + padded, -kInfinity);
  Vector shifts = Vector{} - kInfinity;
  for (std::ptrdiff_t key = 0; key < padded; key += S::kCount) {
    const Vector x = S::at(task.scores + key);
    shifts = x > shifts ? x : shifts;
  }
  T shift = -kInfinity;
  for (std::ptrdiff_t lane = 0; lane < S::kCount; ++lane) shift = shifts[lane] > shift ? shifts[lane] : shift;
  for (std::ptrdiff_t key = 0; key < padded; key += S::kCount) {
    Vector x = S::at(task.scores + key) - shift;
    exp_in_place<T, S>(x);
    S::at(task.scores + key) = x;
  }
}

template <class T, class S>
MEMOPD_INLINE void row_of(const RowTask<T>& task) {
  score_keys<T, S>(task);
  exp_of_scores<T, S>(task);
  T sum{};
  for (std::ptrdiff_t key = 0; key < task.num_keys; ++key) sum += task.scores[key];
  std::ptrdiff_t column = 0;
  for (; column + 4 * S::kCount <= task.depth; column += 4 * S::kCount) mix_columns<T, S, 4>(task, column);
  for (; column + 3 * S::kCount <= task.depth; column += 3 * S::kCount) mix_columns<T, S, 3>(task, column);
  for (; column + S::kCount <= task.depth; column += S::kCount) mix_columns<T, S, 1>(task, column);
  for (; column < task.depth; ++column) {
    T mixed{};
    for (std::ptrdiff_t key = 0; key < task.num_keys; ++key) {
      mixed += task.scores[key] * task.values[key * task.depth + column];
    }
    task.out[column] = mixed;
  }
  const T factor = T{1} / sum;
  for (std::ptrdiff_t d = 0; d < task.depth; ++d) task.out[d] *= factor;
}

#define MEMOPD_ENTRY_POINTS(suffix, bytes, ...)                                               \
  template <class T>                                                                          \
  __VA_ARGS__ void scores_##suffix(const ScoreTask<T>& task) {                                \
    scores_of<T, Simd<T, bytes>>(task);                                                       \
  }                                                                                           \
  template <class T>                                                                          \
  __VA_ARGS__ void softmax_##suffix(const SoftmaxTask<T>& task) {                             \
    softmax_of<T, Simd<T, bytes>>(task);                                                      \
  }                                                                                           \
  template <class T>                                                                          \
  __VA_ARGS__ void softmax_gradient_##suffix(const SoftmaxGradientTask<T>& task) {            \
    softmax_gradient_of<T, Simd<T, bytes>>(task);                                             \
  }                                                                                           \
  template <class T>                                                                          \
  __VA_ARGS__ void mix_##suffix(const MixTask<T>& task) {                                     \
    mix_of<T, Simd<T, bytes>>(task);                                                          \
  }                                                                                           \
  template <class T>                                                                          \
  __VA_ARGS__ void row_##suffix(const RowTask<T>& task) {                                     \
    row_of<T, Simd<T, bytes>>(task);                                                          \
  }                                                                                           \
  template <class T>                                                                          \
  constexpr AttentionKernels<T> kKernels_##suffix = {scores_##suffix<T>, softmax_##suffix<T>, \
                                                     softmax_gradient_##suffix<T>, mix_##suffix<T>, row_##suffix<T>};

MEMOPD_ENTRY_POINTS(portable, 16, [[gnu::noinline]])
#if defined(__x86_64__)
MEMOPD_ENTRY_POINTS(avx2, 32, [[gnu::noinline, gnu::target("avx2,fma")]])
#endif

}  // namespace

template <class T>
const AttentionKernels<T>& attention_kernels(bool portable) {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (has_avx2 && !portable) {
    return kKernels_avx2<T>;
  }
#endif
  return kKernels_portable<T>;
}

template const AttentionKernels<float>& attention_kernels<float>(bool portable);
template const AttentionKernels<double>& attention_kernels<double>(bool portable);

}  // namespace memopd::detail

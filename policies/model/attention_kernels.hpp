// The inner loops of packed attention, for one head and one block of rows; lanes run over the block's query rows.
//
// Scores are kept transposed, [keys, query lanes]: the softmax then needs no sum across lanes, keys and values are read
// where they lie (kv_index) without a copy, and every sum over keys runs in key order, so that a row's bits depend on
// what it sees and on nothing else.
// Written with vector types of the compiler, twice: for AVX2 with FMA, and for 16-byte registers, which all targets have.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace memopd::detail {

/// Query rows are padded to a multiple of this, the lanes of the widest vector in use.
template <class T>
inline constexpr std::ptrdiff_t kLanes = 32 / static_cast<std::ptrdiff_t>(sizeof(T));

/// out[j, i] = sum_d rows[index[j], d] * columns[d, i] for all keys j and the lanes i that see them.
template <class T>
struct ScoreTask {
  const T* rows;  ///< keys or values, [.., Dh], Dh contiguous
  std::ptrdiff_t row_stride;
  const std::int32_t* index;  ///< [num_keys]
  std::ptrdiff_t num_keys;
  std::ptrdiff_t num_chain;  ///< key num_chain + o is seen by lanes i >= o only
  const T* columns;          ///< [Dh, num_lanes]
  std::ptrdiff_t depth;      ///< Dh
  std::ptrdiff_t num_lanes;  ///< multiple of kLanes
  T* out;                    ///< [num_keys, num_lanes]; lanes of whole vectors that see nothing stay untouched
};

/// out[out_index[r], :] (+)= sum over l in [begin(r), end(r)) of weights[r * weight_row + l * weight_step] *
/// in[in_index[l], :], in order of l.
template <class T>
struct MixTask {
  const T* weights;
  std::ptrdiff_t weight_row;
  std::ptrdiff_t weight_step;
  std::ptrdiff_t num_rows;
  std::ptrdiff_t begin_offset;  ///< begin(r) = max(0, r - begin_offset)
  std::ptrdiff_t end_offset;    ///< end(r) = min(end, r + 1 + end_offset)
  std::ptrdiff_t end;
  const T* in;  ///< [.., width]
  std::ptrdiff_t in_stride;
  const std::int32_t* in_index;
  T* out;  ///< [.., width]
  std::ptrdiff_t out_stride;
  const std::int32_t* out_index;
  std::ptrdiff_t width;  ///< multiple of kLanes
  bool adds;             ///< false: out is overwritten
};

/// In place: scores become exp(score - shift), 0 where a lane does not see the key.
template <class T>
struct SoftmaxTask {
  T* scores;  ///< [num_keys, num_lanes]
  std::ptrdiff_t num_keys;
  std::ptrdiff_t num_chain;
  std::ptrdiff_t num_lanes;
  T* shift;  ///< [num_lanes] maximum of the visible scores when `finds_shift`, else given (log-sum-exp)
  T* sum;    ///< [num_lanes] sum of the results when `finds_shift`
  bool finds_shift;
};

/// In place: gradients become scale * probabilities * (gradient - mean).
template <class T>
struct SoftmaxGradientTask {
  const T* probabilities;  ///< [num_keys, num_lanes]
  T* gradients;
  const T* mean;  ///< [num_lanes]
  T scale;
  std::ptrdiff_t num_keys;
  std::ptrdiff_t num_chain;
  std::ptrdiff_t num_lanes;
};

/// softmax(query keys) values for one query, as when a sequence is decoded: the same operations in the same order as
/// scores, softmax and mix for one row, so that a row has the same bits when it is decoded as when its prompt is read.
template <class T>
struct RowTask {
  const T* query;  ///< [Dh], times the scale
  const T* keys;   ///< [Dh, key_stride]: column j is key j, so that neighbours in memory are independent sums
  std::ptrdiff_t key_stride;
  const T* values;  ///< [num_keys, Dh]
  std::ptrdiff_t num_keys;
  std::ptrdiff_t depth;  ///< Dh, any
  T* scores;             ///< scratch, [num_keys] rounded up to a multiple of kLanes
  T* out;                ///< [Dh]
};

template <class T>
struct AttentionKernels {
  void (*scores)(const ScoreTask<T>&);
  void (*softmax)(const SoftmaxTask<T>&);
  void (*softmax_gradient)(const SoftmaxGradientTask<T>&);
  void (*mix)(const MixTask<T>&);
  void (*row)(const RowTask<T>&);
};

/// The kernels for this processor (AVX2 with FMA where it has them), or the portable ones.
template <class T>
const AttentionKernels<T>& attention_kernels(bool portable);

}  // namespace memopd::detail

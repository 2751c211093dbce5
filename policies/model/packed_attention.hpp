// Attention over a pack: every row attends to the rows its plan lists, and to nothing else.
//
// Shapes  T rows, H query heads, Hkv key/value heads (H a multiple of Hkv; query head h reads kv head h / (H / Hkv)),
//         Dh head size.
// AP-3 isolation  a row's result is a function of its own query and of the keys and values it sees: the bits do not
//                 change with other rows (even NaN), with the pack around it, with how its chain is cut into segments,
//                 or with the number of threads.
// Gradients are summed in block order, so they too do not change with the number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include "policies/model/packed_tensors.hpp"

namespace memopd {

/// Which kernels run: the best the processor has (AVX2 with FMA), or those that run anywhere.
enum class AttentionPath { automatic, portable };

/// softmax(scale * q k^T) v over the visible rows, with autograd (first derivatives) when grad mode is on.
/// @param q      [T, H, Dh] float32 or float64, CPU; any strides (no copy when the last is 1)
/// @param k, v   [T, Hkv, Dh], dtype of q
/// @param scale  usually 1 / sqrt(Dh)
/// @return  [T, H, Dh], contiguous
/// Thread-safe. Runs on at::parallel_for, across blocks and in backward across key/value heads; that is serial in a build
/// whose compiler has OpenMP off. Shapes that disagree are our own bug (MEMOPD_CHECK): configuration and checkpoint are
/// checked where they are read.
at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const PackedTensors& pack,
                            double scale, AttentionPath path = AttentionPath::automatic);

}  // namespace memopd

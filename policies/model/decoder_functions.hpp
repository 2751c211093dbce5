// The differentiable pieces of a decoder layer, fused so that a layer is four nodes of the autograd graph.
//
// Shapes  T rows, D hidden_size, F intermediate_size, H query heads, Hkv key/value heads, Dh head size.
// is_row_exact  a row's bits do not depend on the other rows (row_products.hpp); gradients are not affected.
// First derivatives only. Thread-safe: nothing is shared between calls.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace memopd {

struct AttentionShape {
  std::int64_t num_heads = 0;     ///< H
  std::int64_t num_kv_heads = 0;  ///< Hkv
  std::int64_t head_dim = 0;      ///< Dh
};

/// What turns a row into its q, k and v.
struct QkvParameters {
  at::Tensor input_norm;  ///< [D]
  at::Tensor weight;      ///< [(H + 2 Hkv) Dh, D]: q, k, v stacked
  at::Tensor bias;        ///< [(H + 2 Hkv) Dh] or undefined
  at::Tensor q_norm;      ///< [Dh], RMSNorm of every head of q before it is turned; undefined = none
  at::Tensor k_norm;      ///< [Dh], likewise of k; defined iff q_norm is
};

/// rms_norm(x) times the stacked weight, q and k normed head by head where asked and turned by their row's position.
/// @param x       [T, D] contiguous
/// @param rope    [T, Dh] cos ++ sin
/// @return  q [T, H, Dh], k [T, Hkv, Dh], v [T, Hkv, Dh]: views of one buffer, last stride 1
std::array<at::Tensor, 3> norm_qkv_rope(const at::Tensor& x, const QkvParameters& parameters, const at::Tensor& rope,
                                        double eps, const AttentionShape& shape, bool is_row_exact = false);

/// x + down(silu(gate) * up) of rms_norm(x). @param gate_up_weight [2 F, D], @param down_weight [D, F]; returns [T, D]
at::Tensor norm_mlp_residual(const at::Tensor& x, const at::Tensor& norm_weight, const at::Tensor& gate_up_weight,
                             const at::Tensor& down_weight, double eps, bool is_row_exact = false);

/// rms_norm(x) [T, D].
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

}  // namespace memopd

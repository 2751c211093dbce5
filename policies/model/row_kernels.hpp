// Row-wise kernels of the decoder and their gradients: plain loops over contiguous rows, compiled for AVX2 and for any
// other processor, chosen when the program starts. Torch-free.
//
// Shapes  M rows, D row width, F gate width, H heads to turn, Dh head size.
// Every row is a function of its own inputs, whatever M: the bits of a row do not depend on its neighbours. Sums over rows
// (weight gradients of the norms) run in row order. Instantiated for float and double.
#pragma once

#include <cstdint>

namespace memopd {

/// y = x / sqrt(mean(x^2) + eps) * weight; inverse_rms [M] is kept for the gradient (may be null).
/// Source: Zhang and Sennrich (2019).
template <class T>
void rms_norm_rows(const T* x, const T* weight, T eps, std::int64_t m, std::int64_t d, T* y, T* inverse_rms);

/// dx [M, D] += gradient of the input; dweight [D] += gradient of the weight.
template <class T>
void rms_norm_rows_backward(const T* dy, const T* x, const T* weight, const T* inverse_rms, std::int64_t m,
                            std::int64_t d, T* dx, T* dweight);

/// The same for each of `h` heads of Dh values that stand side by side in rows `stride` apart; weight [Dh].
/// y: the same layout, may be x; inverse_rms [M, h] is kept for the gradient (may be null).
template <class T>
void rms_norm_heads(const T* x, std::int64_t stride, const T* weight, T eps, std::int64_t m, std::int64_t h,
                    std::int64_t dh, T* y, T* inverse_rms);

/// Turns the gradient of y into that of x, in place (x and dy: rows `stride` apart); dweight [Dh] += its gradient.
template <class T>
void rms_norm_heads_backward(T* dy, const T* x, std::int64_t stride, const T* weight, const T* inverse_rms,
                             std::int64_t m, std::int64_t h, std::int64_t dh, T* dweight);

/// Turns pair (i, i + Dh/2) of each of `h` heads by the angle of its row, in place.
/// x: rows `stride` apart; rope [M, Dh] = cos [Dh/2] ++ sin [Dh/2]. direction -1 turns back (the gradient).
/// Source: Su et al. (2021), in the half-split layout of Hugging Face.
template <class T>
void rotate_rows(T* x, std::int64_t stride, const T* rope, std::int64_t m, std::int64_t h, std::int64_t dh,
                 T direction);

/// y [M, F] = silu(gate) * up of gate_up [M, 2 F] = gate ++ up. Source: Shazeer (2020).
template <class T>
void swiglu_rows(const T* gate_up, std::int64_t m, std::int64_t f, T* y);

/// dgate_up [M, 2 F] of dy [M, F]; dgate_up may be gate_up itself.
template <class T>
void swiglu_rows_backward(const T* dy, const T* gate_up, std::int64_t m, std::int64_t f, T* dgate_up);

/// out[i] = exp(x[i] - shift) * 1, the sum of all in double as the result. -inf gives 0. Relative error below 3e-7.
double exp_row(const float* x, float shift, float scale, std::int64_t n, float* out);

}  // namespace memopd

// Products of rows with a weight, where wanted with bits that do not depend on how many rows there are.
//
// Shapes  M rows, K inputs, N outputs; weight [N, K], as a linear layer stores it.
// RL-7 row-exact  a row's bits are a function of that row and the weight: not of M, of the other rows, of its place, or of
//                 the buffers. A matrix product of the tensor library promises that for one shape and alignment only, so
//                 row-exact products run in tiles of kTileRows rows, the last one padded with zero rows, at addresses
//                 that are multiples of kAlignment. Up to two tiles of kSmallTileRows stand for the last one where a
//                 trial with the weight's shape shows that their bits are the same.
//                 It holds for one processor and one number of operation threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace memopd {

inline constexpr std::int64_t kTileRows = 64;
inline constexpr std::int64_t kSmallTileRows = 16;
inline constexpr std::size_t kAlignment = 64;  ///< bytes

/// out [M, N] = x [M, K] weight^T, without autograd. `out` is contiguous and no part of x or weight.
/// Thread-safe. Row-exact costs what rounding M up to a multiple of a tile costs, plus the start of each product.
void multiply_rows_out(const at::Tensor& out, const at::Tensor& x, const at::Tensor& weight, bool is_row_exact);

/// x weight^T [M, N], with autograd (first derivatives; gradients are not row-exact).
[[nodiscard]] at::Tensor multiply_rows(const at::Tensor& x, const at::Tensor& weight, bool is_row_exact);

/// y + x weight^T, y [M, N], likewise.
[[nodiscard]] at::Tensor add_product(const at::Tensor& y, const at::Tensor& x, const at::Tensor& weight,
                                     bool is_row_exact);

}  // namespace memopd

#include "policies/model/row_products.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>

namespace memopd {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool can_tile(const at::Tensor& tensor) {
  return tensor.is_contiguous() && reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % kAlignment == 0;
}

/// Memory of the tensor library is aligned as we need it; a view may begin anywhere.
at::Tensor aligned(const at::Tensor& tensor) {
  return can_tile(tensor) ? tensor : tensor.clone(at::MemoryFormat::Contiguous);
}

/// Rows [row, row + tile) of the product, as one product of `tile` rows.
void multiply_tile(const at::Tensor& out_MN, const at::Tensor& x_MK, const at::Tensor& weight_KN, std::int64_t row,
                   std::int64_t tile) {
  const std::int64_t count = std::min(tile, x_MK.size(0) - row);
  if (count == tile) {
    at::Tensor rows = out_MN.narrow(0, row, tile);
    at::mm_out(rows, x_MK.narrow(0, row, tile), weight_KN);
    return;
  }
  const at::Tensor padded = at::zeros({tile, x_MK.size(1)}, x_MK.options());
  padded.narrow(0, 0, count).copy_(x_MK.narrow(0, row, count));
  at::Tensor rows = at::empty({tile, out_MN.size(1)}, out_MN.options());
  at::mm_out(rows, padded, weight_KN);
  out_MN.narrow(0, row, count).copy_(rows.narrow(0, 0, count));
}

/// Whether products of kSmallTileRows rows have the bits of products of kTileRows rows with weights of this shape: tried
/// once per shape on random rows. A weight of zeros tells nothing.
bool small_tiles_agree(const at::Tensor& weight_KN) {
  using Shape = std::tuple<std::int64_t, std::int64_t, at::ScalarType>;
  static std::mutex mutex;
  static std::map<Shape, bool> known;
  const std::lock_guard lock(mutex);
  const Shape shape{weight_KN.size(0), weight_KN.size(1), weight_KN.scalar_type()};
  if (const auto found = known.find(shape); found != known.end()) return found->second;
  const at::Tensor x =
      at::randn({kTileRows, weight_KN.size(0)}, at::detail::createCPUGenerator(1), weight_KN.options());
  const at::Tensor large = at::empty({kTileRows, weight_KN.size(1)}, x.options());
  const at::Tensor small = at::empty_like(large);
  multiply_tile(large, x, weight_KN, 0, kTileRows);
  for (std::int64_t row = 0; row < kTileRows; row += kSmallTileRows) {
    multiply_tile(small, x, weight_KN, row, kSmallTileRows);
  }
  if (large.count_nonzero().item<std::int64_t>() < large.numel() / 2) return false;
  return known.emplace(shape, at::equal(large, small)).first->second;
}

void multiply_tiles(const at::Tensor& out_MN, const at::Tensor& x_MK, const at::Tensor& weight_NK) {
  const at::Tensor weight_KN = weight_NK.t();
  const std::int64_t num_rows = x_MK.size(0);
  std::int64_t row = 0;
  for (; num_rows - row > 2 * kSmallTileRows; row += kTileRows) {
    multiply_tile(out_MN, x_MK, weight_KN, row, kTileRows);
  }
  if (row >= num_rows) return;
  const std::int64_t tile = small_tiles_agree(weight_KN) ? kSmallTileRows : kTileRows;
  for (; row < num_rows; row += tile) multiply_tile(out_MN, x_MK, weight_KN, row, tile);
}

/// Adds columns of zeros up to a multiple of 4: rows of an odd number of doubles lie differently from one to the next.
at::Tensor with_whole_rows(const at::Tensor& tensor) {
  constexpr std::int64_t kMultiple = 4;
  const std::int64_t missing = (kMultiple - tensor.size(1) % kMultiple) % kMultiple;
  return aligned(missing == 0 ? tensor : at::constant_pad_nd(tensor, {0, missing}));
}

struct RowExactProduct : torch::autograd::Function<RowExactProduct> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_MK, const at::Tensor& weight_NK) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    at::Tensor out_MN = at::empty({x_MK.size(0), weight_NK.size(0)}, x_MK.options());
    multiply_rows_out(out_MN, x_MK, weight_NK, true);
    ctx->save_for_backward({x_MK, weight_NK});
    return out_MN;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    const auto saved = ctx->get_saved_variables();
    return {at::mm(grads[0], saved[1]), at::mm(grads[0].t(), saved[0])};
  }
};

}  // namespace

void multiply_rows_out(const at::Tensor& out, const at::Tensor& x, const at::Tensor& weight, bool is_row_exact) {
  at::Tensor target = out;
  if (!is_row_exact) {
    at::mm_out(target, x, weight.t());
    return;
  }
  if (!can_tile(out)) target = at::empty(out.sizes(), out.options());
  multiply_tiles(target, with_whole_rows(x), with_whole_rows(weight));
  if (!target.is_same(out)) out.copy_(target);
}

at::Tensor multiply_rows(const at::Tensor& x, const at::Tensor& weight, bool is_row_exact) {
  return is_row_exact ? RowExactProduct::apply(x, weight) : at::mm(x, weight.t());
}

at::Tensor add_product(const at::Tensor& y, const at::Tensor& x, const at::Tensor& weight, bool is_row_exact) {
  return is_row_exact ? at::add(y, RowExactProduct::apply(x, weight)) : at::addmm(y, x, weight.t());
}

}  // namespace memopd

#include "policies/model/packed_attention.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <utility>

#include "policies/model/attention_kernels.hpp"
#include "runtime/base/check.hpp"

namespace memopd {
namespace {

using detail::AttentionKernels;
using detail::kLanes;

/// Aligned memory of one worker, handed out in pieces; contents undefined.
template <class T>
class Scratch {
 public:
  explicit Scratch(std::ptrdiff_t size)
      : data_(static_cast<T*>(::operator new (static_cast<std::size_t>(size) * sizeof(T), std::align_val_t{64}))) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { ::operator delete (data_, std::align_val_t{64}); }

  T* take(std::ptrdiff_t size) { return data_ + std::exchange(used_, used_ + size); }
  void clear() { used_ = 0; }

 private:
  T* data_;
  std::ptrdiff_t used_ = 0;
};

/// One head of a [T, heads, Dh] tensor: row t is at data + t * stride.
template <class T>
struct Head {
  T* data;
  std::ptrdiff_t stride;
};

template <class T>
Head<const T> read_head(const at::Tensor& tensor, std::int64_t head) {
  return {tensor.const_data_ptr<T>() + head * tensor.stride(1), tensor.stride(0)};
}
template <class T>
Head<T> write_head(const at::Tensor& tensor, std::int64_t head) {
  return {tensor.mutable_data_ptr<T>() + head * tensor.stride(1), tensor.stride(0)};
}

/// What both passes need to know of a block.
struct BlockView {
  BlockView(const AttentionPlan& plan, const AttentionBlock& block, std::ptrdiff_t lanes)
      : num_rows(block.q_end - block.q_begin),
        num_visible(block.num_visible),
        num_chain(num_visible - num_rows),
        num_lanes((num_rows + lanes - 1) / lanes * lanes),
        visible(plan.kv_index.data() + block.visible_begin),
        own(visible + num_chain),
        q_begin(block.q_begin) {}

  std::ptrdiff_t num_rows;
  std::ptrdiff_t num_visible;
  std::ptrdiff_t num_chain;
  std::ptrdiff_t num_lanes;
  const std::int32_t* visible;  ///< [num_visible] rows
  const std::int32_t* own;      ///< [num_rows] rows
  std::ptrdiff_t q_begin;
};

/// out[d, i] = factor * row q_begin + i of `head`; lanes beyond the block are 0.
template <class T>
void transpose(const Head<const T>& head, const BlockView& block, std::ptrdiff_t depth, T factor, T* out) {
  for (std::ptrdiff_t i = 0; i < block.num_rows; ++i) {
    const T* row = head.data + (block.q_begin + i) * head.stride;
    for (std::ptrdiff_t d = 0; d < depth; ++d) {
      out[d * block.num_lanes + i] = factor * row[d];
    }
  }
  for (std::ptrdiff_t i = block.num_rows; i < block.num_lanes; ++i) {
    for (std::ptrdiff_t d = 0; d < depth; ++d) {
      out[d * block.num_lanes + i] = T{0};
    }
  }
}

/// Multiply-adds of a pass, to decide whether threads are worth it.
std::int64_t amount_of_work(const AttentionPlan& plan, std::int64_t num_heads, std::int64_t depth) {
  std::int64_t pairs = 0;
  for (const AttentionBlock& block : plan.blocks) {
    pairs += std::int64_t{block.q_end - block.q_begin} * block.num_visible;
  }
  return pairs * num_heads * depth;
}

constexpr std::int64_t kWorkWorthThreads = 400000;

template <class T>
std::ptrdiff_t scratch_size(const AttentionPlan& plan, std::ptrdiff_t depth) {
  std::ptrdiff_t size = 0;
  for (const AttentionBlock& block : plan.blocks) {
    const BlockView view(plan, block, kLanes<T>);
    size = std::max(size, view.num_lanes * (2 * depth + 2 * view.num_visible + 2));
  }
  return size;
}

/// Everything a pass reads and writes. H heads, Hkv key/value heads; the last dimension of all tensors is contiguous.
struct Problem {
  const AttentionPlan& plan;
  at::Tensor q, k, v;
  at::Tensor out;          ///< [T, H, Dh]
  at::Tensor log_sum_exp;  ///< [H, T]; undefined when nobody needs it
  double scale;
  bool is_portable;
  at::Tensor grad_out{}, grad_q{}, grad_k{}, grad_v{};  ///< backward only; grad_k and grad_v start at 0

  [[nodiscard]] std::int64_t group_size() const { return q.size(1) / k.size(1); }
};

template <class T>
void attend(const Problem& p, const AttentionKernels<T>& kernels, const BlockView& block, std::int64_t head,
            Scratch<T>& scratch) {
  const std::ptrdiff_t depth = p.q.size(2);
  const Head<const T> k = read_head<T>(p.k, head / p.group_size());
  const Head<const T> v = read_head<T>(p.v, head / p.group_size());
  const Head<T> out = write_head<T>(p.out, head);
  scratch.clear();
  T* columns = scratch.take(depth * block.num_lanes);
  T* scores = scratch.take(block.num_visible * block.num_lanes);
  T* shift = scratch.take(block.num_lanes);
  T* sum = scratch.take(block.num_lanes);
  transpose(read_head<T>(p.q, head), block, depth, static_cast<T>(p.scale), columns);
  kernels.scores(
      {k.data, k.stride, block.visible, block.num_visible, block.num_chain, columns, depth, block.num_lanes, scores});
  kernels.softmax({scores, block.num_visible, block.num_chain, block.num_lanes, shift, sum, true});
  kernels.mix({scores, 1, block.num_lanes, block.num_rows, block.num_rows, block.num_chain, block.num_visible, v.data,
               v.stride, block.visible, out.data, out.stride, block.own, depth, false});
  for (std::ptrdiff_t i = 0; i < block.num_rows; ++i) {
    T* row = out.data + (block.q_begin + i) * out.stride;
    const T factor = T{1} / sum[i];
    for (std::ptrdiff_t d = 0; d < depth; ++d) {
      row[d] *= factor;
    }
  }
  if (p.log_sum_exp.defined()) {
    T* log_sum_exp = p.log_sum_exp.mutable_data_ptr<T>() + head * p.q.size(0) + block.q_begin;
    for (std::ptrdiff_t i = 0; i < block.num_rows; ++i) {
      log_sum_exp[i] = shift[i] + std::log(sum[i]);
    }
  }
}

template <class T>
void forward_pass(const Problem& p) {
  const AttentionKernels<T>& kernels = detail::attention_kernels<T>(p.is_portable);
  const auto num_blocks = static_cast<std::int64_t>(p.plan.blocks.size());
  const bool threads = amount_of_work(p.plan, p.q.size(1), p.q.size(2)) > kWorkWorthThreads;
  at::parallel_for(0, num_blocks, threads ? 1 : num_blocks, [&](std::int64_t begin, std::int64_t end) {
    Scratch<T> scratch(scratch_size<T>(p.plan, p.q.size(2)));
    for (std::int64_t b = begin; b < end; ++b) {
      const BlockView block(p.plan, p.plan.blocks[static_cast<std::size_t>(b)], kLanes<T>);
      for (std::int64_t head = 0; head < p.q.size(1); ++head) {
        attend(p, kernels, block, head, scratch);
      }
    }
  });
}

/// Gradients of one query head and block: grad_q written, grad_k and grad_v added to.
template <class T>
void attend_backward(const Problem& p, const AttentionKernels<T>& kernels, const BlockView& block, std::int64_t head,
                     Scratch<T>& scratch) {
  const std::ptrdiff_t depth = p.q.size(2);
  const std::int64_t kv_head = head / p.group_size();
  const Head<const T> q = read_head<T>(p.q, head), k = read_head<T>(p.k, kv_head), v = read_head<T>(p.v, kv_head);
  const Head<const T> out = read_head<T>(p.out, head), grad_out = read_head<T>(p.grad_out, head);
  const Head<T> grad_q = write_head<T>(p.grad_q, head);
  const Head<T> grad_k = write_head<T>(p.grad_k, kv_head), grad_v = write_head<T>(p.grad_v, kv_head);
  const auto scale = static_cast<T>(p.scale);
  scratch.clear();
  T* columns = scratch.take(depth * block.num_lanes);
  T* probabilities = scratch.take(block.num_visible * block.num_lanes);
  T* gradients = scratch.take(block.num_visible * block.num_lanes);
  T* shift = scratch.take(block.num_lanes);
  T* mean = scratch.take(block.num_lanes);
  const T* log_sum_exp = p.log_sum_exp.const_data_ptr<T>() + head * p.q.size(0) + block.q_begin;
  std::fill(std::copy(log_sum_exp, log_sum_exp + block.num_rows, shift), shift + block.num_lanes, T{0});
  std::fill(mean, mean + block.num_lanes, T{0});
  for (std::ptrdiff_t i = 0; i < block.num_rows; ++i) {
    const std::ptrdiff_t row = block.q_begin + i;
    for (std::ptrdiff_t d = 0; d < depth; ++d) {
      mean[i] += grad_out.data[row * grad_out.stride + d] * out.data[row * out.stride + d];
    }
  }
  transpose(q, block, depth, scale, columns);
  kernels.scores({k.data, k.stride, block.visible, block.num_visible, block.num_chain, columns, depth, block.num_lanes,
                  probabilities});
  kernels.softmax({probabilities, block.num_visible, block.num_chain, block.num_lanes, shift, nullptr, false});
  transpose(grad_out, block, depth, T{1}, columns);
  kernels.scores({v.data, v.stride, block.visible, block.num_visible, block.num_chain, columns, depth, block.num_lanes,
                  gradients});
  kernels.softmax_gradient(
      {probabilities, gradients, mean, scale, block.num_visible, block.num_chain, block.num_lanes});
  kernels.mix({gradients, 1, block.num_lanes, block.num_rows, block.num_rows, block.num_chain, block.num_visible,
               k.data, k.stride, block.visible, grad_q.data, grad_q.stride, block.own, depth, false});
  // Key num_chain + o is seen by rows i >= o.
  kernels.mix({gradients, block.num_lanes, 1, block.num_visible, block.num_chain, block.num_rows, block.num_rows,
               q.data, q.stride, block.own, grad_k.data, grad_k.stride, block.visible, depth, true});
  kernels.mix({probabilities, block.num_lanes, 1, block.num_visible, block.num_chain, block.num_rows, block.num_rows,
               grad_out.data, grad_out.stride, block.own, grad_v.data, grad_v.stride, block.visible, depth, true});
}

/// Blocks share keys, so a key/value head is one worker's, who takes blocks and query heads in order.
template <class T>
void backward_pass(const Problem& p) {
  const AttentionKernels<T>& kernels = detail::attention_kernels<T>(p.is_portable);
  const std::int64_t num_kv_heads = p.k.size(1);
  const bool threads = amount_of_work(p.plan, p.q.size(1), p.q.size(2)) > kWorkWorthThreads;
  at::parallel_for(0, num_kv_heads, threads ? 1 : num_kv_heads, [&](std::int64_t begin, std::int64_t end) {
    Scratch<T> scratch(scratch_size<T>(p.plan, p.q.size(2)));
    for (const AttentionBlock& block : p.plan.blocks) {
      const BlockView view(p.plan, block, kLanes<T>);
      for (std::int64_t head = begin * p.group_size(); head < end * p.group_size(); ++head) {
        attend_backward(p, kernels, view, head, scratch);
      }
    }
  });
}

template <class Pass>
void for_type(at::ScalarType type, Pass&& pass) {
  if (type == at::kFloat) {
    pass(float{});
  } else {
    pass(double{});
  }
}

at::Tensor with_contiguous_rows(const at::Tensor& tensor) {
  return tensor.stride(2) == 1 ? tensor : tensor.contiguous();
}

struct PlanHolder : torch::CustomClassHolder {
  explicit PlanHolder(std::shared_ptr<const AttentionPlan> held) : plan(std::move(held)) {}
  std::shared_ptr<const AttentionPlan> plan;
};

class PackedAttention : public torch::autograd::Function<PackedAttention> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const std::shared_ptr<const AttentionPlan>& plan, double scale,
                            bool is_portable) {
    const Problem p{
        *plan, q,          k, v, at::empty(q.sizes(), q.options()), at::empty({q.size(1), q.size(0)}, q.options()),
        scale, is_portable};
    for_type(q.scalar_type(), [&](auto zero) { forward_pass<decltype(zero)>(p); });
    context->save_for_backward({q, k, v, p.out, p.log_sum_exp});
    context->saved_data["plan"] = c10::IValue::make_capsule(c10::make_intrusive<PlanHolder>(plan));
    context->saved_data["scale"] = scale;
    context->saved_data["is_portable"] = is_portable;
    return p.out;
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list grads) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "packed_attention has first derivatives only");
    if (!grads[0].defined()) {
      return torch::autograd::tensor_list(6);
    }
    const torch::autograd::tensor_list saved = context->get_saved_variables();
    const auto holder = c10::static_intrusive_pointer_cast<PlanHolder>(context->saved_data["plan"].toCapsule());
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    const Problem p{*holder->plan,
                    q,
                    k,
                    v,
                    saved[3],
                    saved[4],
                    context->saved_data["scale"].toDouble(),
                    context->saved_data["is_portable"].toBool(),
                    grads[0].contiguous(),
                    at::empty(q.sizes(), q.options()),
                    at::zeros(k.sizes(), k.options()),
                    at::zeros(v.sizes(), v.options())};
    for_type(q.scalar_type(), [&](auto zero) { backward_pass<decltype(zero)>(p); });
    return {p.grad_q, p.grad_k, p.grad_v, {}, {}, {}};
  }
};

void check_shapes(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const PackedTensors& pack) {
  MEMOPD_CHECK(q.dim() == 3 && k.dim() == 3 && v.dim() == 3, "q, k and v are [T, heads, Dh]");
  MEMOPD_CHECK(q.scalar_type() == at::kFloat || q.scalar_type() == at::kDouble, "float32 or float64");
  MEMOPD_CHECK(k.scalar_type() == q.scalar_type() && v.scalar_type() == q.scalar_type(), "one dtype for q, k and v");
  MEMOPD_CHECK(q.size(0) == pack.num_tokens() && k.size(0) == q.size(0), "one row per token of the pack");
  MEMOPD_CHECK(k.sizes() == v.sizes() && k.size(2) == q.size(2), "k and v have the same shape, q the same head size");
  MEMOPD_CHECK(k.size(1) > 0 && q.size(1) % k.size(1) == 0, "query heads are a multiple of key/value heads");
}

}  // namespace

at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const PackedTensors& pack,
                            double scale, AttentionPath path) {
  check_shapes(q, k, v, pack);
  const std::int64_t lanes = q.scalar_type() == at::kFloat ? kLanes<float> : kLanes<double>;
  const std::int64_t depth = q.size(2);
  if (depth % lanes != 0) {
    // Zero columns change no score; the kernels take whole vectors only.
    const std::int64_t padding = lanes - depth % lanes;
    const auto padded = [padding](const at::Tensor& x) { return at::constant_pad_nd(x, {0, padding}); };
    return packed_attention(padded(q), padded(k), padded(v), pack, scale, path).narrow(2, 0, depth).contiguous();
  }
  const at::Tensor rows_q = with_contiguous_rows(q), rows_k = with_contiguous_rows(k), rows_v = with_contiguous_rows(v);
  const bool is_portable = path == AttentionPath::portable;
  if (at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad())) {
    return PackedAttention::apply(rows_q, rows_k, rows_v, pack.plan, scale, is_portable);
  }
  const Problem p{*pack.plan, rows_q, rows_k, rows_v, at::empty(q.sizes(), q.options()), {}, scale, is_portable};
  for_type(q.scalar_type(), [&](auto zero) { forward_pass<decltype(zero)>(p); });
  return p.out;
}

}  // namespace memopd

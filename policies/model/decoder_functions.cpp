// Suffixes: T rows, D hidden_size, Q = (H + 2 Hkv) Dh, G = 2 F, F intermediate_size.
#include "policies/model/decoder_functions.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <tuple>
#include <utility>

#include "policies/model/row_kernels.hpp"
#include "policies/model/row_products.hpp"

namespace memopd {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

/// Runs `kernel` with a null pointer of the tensor's element type: float or double.
template <class F>
void with_type(const at::Tensor& tensor, F kernel) {
  if (tensor.scalar_type() == at::kDouble) {
    kernel(static_cast<double*>(nullptr));
  } else {
    kernel(static_cast<float*>(nullptr));
  }
}

template <class T>
T* data(const at::Tensor& tensor) {
  return tensor.data_ptr<T>();
}

struct Normed {
  at::Tensor rows_TD;
  at::Tensor inverse_rms_T;
};

Normed norm_forward(const at::Tensor& x_TD, const at::Tensor& weight_D, double eps) {
  Normed normed{at::empty_like(x_TD), at::empty({x_TD.size(0)}, x_TD.options())};
  with_type(x_TD, [&]<class T>(T*) {
    rms_norm_rows<T>(data<T>(x_TD), data<T>(weight_D), static_cast<T>(eps), x_TD.size(0), x_TD.size(1),
                     data<T>(normed.rows_TD), data<T>(normed.inverse_rms_T));
  });
  return normed;
}

/// Adds the input's gradient to `dx_TD`; returns the weight's.
at::Tensor norm_backward(const at::Tensor& dy_TD, const at::Tensor& x_TD, const at::Tensor& weight_D,
                         const at::Tensor& inverse_rms_T, at::Tensor& dx_TD) {
  at::Tensor dweight_D = at::zeros_like(weight_D);
  with_type(x_TD, [&]<class T>(T*) {
    rms_norm_rows_backward<T>(data<T>(dy_TD), data<T>(x_TD), data<T>(weight_D), data<T>(inverse_rms_T), x_TD.size(0),
                              x_TD.size(1), data<T>(dx_TD), data<T>(dweight_D));
  });
  return dweight_D;
}

/// Turns q and k, which stand side by side in `qkv_TQ`: one run of H + Hkv heads.
void rotate(at::Tensor& qkv_TQ, const at::Tensor& rope, std::int64_t num_turned, std::int64_t head_dim, int direction) {
  with_type(qkv_TQ, [&]<class T>(T*) {
    rotate_rows<T>(data<T>(qkv_TQ), qkv_TQ.size(1), data<T>(rope), qkv_TQ.size(0), num_turned, head_dim,
                   static_cast<T>(direction));
  });
}

at::Tensor project(const at::Tensor& x_TD, const at::Tensor& weight_QD, const std::optional<at::Tensor>& bias_Q,
                   bool is_row_exact) {
  if (bias_Q && !is_row_exact) return at::addmm(*bias_Q, x_TD, weight_QD.t());
  at::Tensor rows_TQ = at::empty({x_TD.size(0), weight_QD.size(0)}, x_TD.options());
  multiply_rows_out(rows_TQ, x_TD, weight_QD, is_row_exact);
  return bias_Q ? rows_TQ.add_(*bias_Q) : rows_TQ;
}

/// The heads of q and k in rows that hold q, k and v side by side, and the norm of each kind.
struct HeadNorms {
  at::Tensor q_norm;
  at::Tensor k_norm;
  std::int64_t num_heads;
  std::int64_t num_kv_heads;

  [[nodiscard]] std::int64_t head_dim() const { return q_norm.size(0); }
};

/// `qkv_TQ` with every head of q and k normed; inverse_rms [T H] ++ [T Hkv].
std::pair<at::Tensor, at::Tensor> norm_heads_forward(const at::Tensor& qkv_TQ, const HeadNorms& norms, double eps) {
  const std::int64_t rows = qkv_TQ.size(0), dh = norms.head_dim(), num_q = norms.num_heads;
  at::Tensor normed_TQ = qkv_TQ.clone();
  at::Tensor inverse_rms = at::empty({rows * (num_q + norms.num_kv_heads)}, qkv_TQ.options());
  with_type(qkv_TQ, [&]<class T>(T*) {
    const auto norm = [&](const at::Tensor& weight, std::int64_t first, std::int64_t count, T* inverse) {
      rms_norm_heads<T>(data<T>(qkv_TQ) + first * dh, qkv_TQ.size(1), data<T>(weight), static_cast<T>(eps), rows, count,
                        dh, data<T>(normed_TQ) + first * dh, inverse);
    };
    norm(norms.q_norm, 0, num_q, data<T>(inverse_rms));
    norm(norms.k_norm, num_q, norms.num_kv_heads, data<T>(inverse_rms) + rows * num_q);
  });
  return {normed_TQ, inverse_rms};
}

/// Turns `dqkv_TQ` into the gradient before the norms, in place; returns the gradients of both weights.
std::pair<at::Tensor, at::Tensor> norm_heads_backward(at::Tensor& dqkv_TQ, const at::Tensor& qkv_TQ,
                                                      const HeadNorms& norms, const at::Tensor& inverse_rms) {
  const std::int64_t rows = qkv_TQ.size(0), dh = norms.head_dim(), num_q = norms.num_heads;
  at::Tensor dq_norm = at::zeros_like(norms.q_norm), dk_norm = at::zeros_like(norms.k_norm);
  with_type(qkv_TQ, [&]<class T>(T*) {
    const auto turn = [&](const at::Tensor& weight, std::int64_t first, std::int64_t count, const T* inverse,
                          at::Tensor& dweight) {
      rms_norm_heads_backward<T>(data<T>(dqkv_TQ) + first * dh, data<T>(qkv_TQ) + first * dh, qkv_TQ.size(1),
                                 data<T>(weight), inverse, rows, count, dh, data<T>(dweight));
    };
    turn(norms.q_norm, 0, num_q, data<T>(inverse_rms), dq_norm);
    turn(norms.k_norm, num_q, norms.num_kv_heads, data<T>(inverse_rms) + rows * num_q, dk_norm);
  });
  return {dq_norm, dk_norm};
}

struct QkvFunction : Function<QkvFunction> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x_TD, const at::Tensor& norm_D,
                               const at::Tensor& weight_QD, const std::optional<at::Tensor>& bias_Q,
                               const std::optional<at::Tensor>& q_norm, const std::optional<at::Tensor>& k_norm,
                               const at::Tensor& rope, double eps, std::int64_t num_heads, std::int64_t num_kv_heads,
                               bool is_row_exact) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    const std::int64_t head_dim = rope.size(1);
    const Normed normed = norm_forward(x_TD, norm_D, eps);
    at::Tensor qkv_TQ = project(normed.rows_TD, weight_QD, bias_Q, is_row_exact);
    variable_list saved = {x_TD, norm_D, weight_QD, rope, normed.rows_TD, normed.inverse_rms_T};
    if (q_norm) {
      auto [heads_TQ, inverse_rms] = norm_heads_forward(qkv_TQ, {*q_norm, *k_norm, num_heads, num_kv_heads}, eps);
      saved.insert(saved.end(), {*q_norm, *k_norm, qkv_TQ, inverse_rms});
      qkv_TQ = heads_TQ;
    }
    rotate(qkv_TQ, rope, num_heads + num_kv_heads, head_dim, 1);
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["has_bias"] = bias_Q.has_value();
    const at::Tensor heads = qkv_TQ.view({x_TD.size(0), num_heads + 2 * num_kv_heads, head_dim});
    return {heads.narrow(1, 0, num_heads), heads.narrow(1, num_heads, num_kv_heads),
            heads.narrow(1, num_heads + num_kv_heads, num_kv_heads)};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    const auto saved = ctx->get_saved_variables();
    const auto& [x_TD, norm_D, weight_QD, rope, normed_TD, inverse_rms_T] =
        std::tie(saved[0], saved[1], saved[2], saved[3], saved[4], saved[5]);
    const std::int64_t num_heads = grads[0].size(1);
    const std::int64_t num_kv_heads = grads[1].size(1);
    at::Tensor dqkv_TQ = at::empty({x_TD.size(0), weight_QD.size(0)}, x_TD.options());
    at::Tensor heads = dqkv_TQ.view({x_TD.size(0), num_heads + 2 * num_kv_heads, rope.size(1)});
    heads.narrow(1, 0, num_heads).copy_(grads[0]);
    heads.narrow(1, num_heads, num_kv_heads).copy_(grads[1]);
    heads.narrow(1, num_heads + num_kv_heads, num_kv_heads).copy_(grads[2]);
    rotate(dqkv_TQ, rope, num_heads + num_kv_heads, rope.size(1), -1);
    std::pair<at::Tensor, at::Tensor> dhead_norms;
    if (saved.size() > 6) {
      dhead_norms = norm_heads_backward(dqkv_TQ, saved[8], {saved[6], saved[7], num_heads, num_kv_heads}, saved[9]);
    }
    const at::Tensor dnormed_TD = at::mm(dqkv_TQ, weight_QD);
    const at::Tensor dweight_QD = at::mm(dqkv_TQ.t(), normed_TD);
    const at::Tensor dbias_Q = ctx->saved_data["has_bias"].toBool() ? dqkv_TQ.sum(0) : at::Tensor();
    at::Tensor dx_TD = at::zeros_like(x_TD);
    const at::Tensor dnorm_D = norm_backward(dnormed_TD, x_TD, norm_D, inverse_rms_T, dx_TD);
    return {dx_TD, dnorm_D, dweight_QD, dbias_Q, dhead_norms.first, dhead_norms.second, {}, {}, {}, {}, {}};
  }
};

struct MlpFunction : Function<MlpFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_TD, const at::Tensor& norm_D,
                            const at::Tensor& gate_up_GD, const at::Tensor& down_DF, double eps, bool is_row_exact) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    const Normed normed = norm_forward(x_TD, norm_D, eps);
    const at::Tensor gate_up_TG = project(normed.rows_TD, gate_up_GD, std::nullopt, is_row_exact);
    const at::Tensor active_TF = at::empty({x_TD.size(0), down_DF.size(1)}, x_TD.options());
    with_type(x_TD, [&]<class T>(T*) {
      swiglu_rows<T>(data<T>(gate_up_TG), x_TD.size(0), down_DF.size(1), data<T>(active_TF));
    });
    ctx->save_for_backward(
        {x_TD, norm_D, gate_up_GD, down_DF, normed.rows_TD, normed.inverse_rms_T, gate_up_TG, active_TF});
    if (!is_row_exact) return at::addmm(x_TD, active_TF, down_DF.t());
    return project(active_TF, down_DF, std::nullopt, is_row_exact).add_(x_TD);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    const auto saved = ctx->get_saved_variables();
    const auto& [x_TD, norm_D, gate_up_GD, down_DF, normed_TD, inverse_rms_T, gate_up_TG, active_TF] =
        std::tie(saved[0], saved[1], saved[2], saved[3], saved[4], saved[5], saved[6], saved[7]);
    const at::Tensor dout_TD = grads[0].contiguous();
    const at::Tensor dactive_TF = at::mm(dout_TD, down_DF);
    const at::Tensor ddown_DF = at::mm(dout_TD.t(), active_TF);
    const at::Tensor dgate_up_TG = at::empty_like(gate_up_TG);
    with_type(x_TD, [&]<class T>(T*) {
      swiglu_rows_backward<T>(data<T>(dactive_TF), data<T>(gate_up_TG), x_TD.size(0), down_DF.size(1),
                              data<T>(dgate_up_TG));
    });
    const at::Tensor dnormed_TD = at::mm(dgate_up_TG, gate_up_GD);
    const at::Tensor dgate_up_GD = at::mm(dgate_up_TG.t(), normed_TD);
    at::Tensor dx_TD = dout_TD.clone();
    const at::Tensor dnorm_D = norm_backward(dnormed_TD, x_TD, norm_D, inverse_rms_T, dx_TD);
    return {dx_TD, dnorm_D, dgate_up_GD, ddown_DF, {}, {}};
  }
};

struct NormFunction : Function<NormFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_TD, const at::Tensor& weight_D, double eps) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    const Normed normed = norm_forward(x_TD, weight_D, eps);
    ctx->save_for_backward({x_TD, weight_D, normed.inverse_rms_T});
    return normed.rows_TD;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    const auto saved = ctx->get_saved_variables();
    at::Tensor dx_TD = at::zeros_like(saved[0]);
    const at::Tensor dweight_D = norm_backward(grads[0].contiguous(), saved[0], saved[1], saved[2], dx_TD);
    return {dx_TD, dweight_D, {}};
  }
};

}  // namespace

std::array<at::Tensor, 3> norm_qkv_rope(const at::Tensor& x, const QkvParameters& parameters, const at::Tensor& rope,
                                        double eps, const AttentionShape& shape, bool is_row_exact) {
  // Function::apply asks every tensor for its device, so a missing one must not be a tensor.
  const auto given = [](const at::Tensor& tensor) { return tensor.defined() ? std::optional(tensor) : std::nullopt; };
  auto parts =
      QkvFunction::apply(x, parameters.input_norm, parameters.weight, given(parameters.bias), given(parameters.q_norm),
                         given(parameters.k_norm), rope, eps, shape.num_heads, shape.num_kv_heads, is_row_exact);
  return {std::move(parts[0]), std::move(parts[1]), std::move(parts[2])};
}

at::Tensor norm_mlp_residual(const at::Tensor& x, const at::Tensor& norm_weight, const at::Tensor& gate_up_weight,
                             const at::Tensor& down_weight, double eps, bool is_row_exact) {
  return MlpFunction::apply(x, norm_weight, gate_up_weight, down_weight, eps, is_row_exact);
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return NormFunction::apply(x, weight, eps);
}

}  // namespace memopd

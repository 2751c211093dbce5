#include "policies/training/policy_gradient.hpp"

#include <ATen/ops/index_select.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

namespace memopd {

PolicyGradients policy_gradients(const Transformer& student, const PackedTensors& pack, const HeadLossOptions& options,
                                 HeadRows rows) {
  std::vector<at::Tensor> parameters;
  std::size_t head = 0;
  for (const NamedTensor& parameter : student.parameters()) {
    if (parameter.tensor.is_same(student.head_weight())) {
      head = parameters.size();
    }
    parameters.push_back(parameter.tensor);
  }
  at::Tensor graph_rows_RD;
  {
    const c10::AutoGradMode with_grad(true);
    graph_rows_RD = student.hidden(pack).index_select(0, pack.response_index);
  }
  const c10::NoGradGuard no_grad;
  rows.rows_RD = graph_rows_RD.detach();
  rows.head_VD = student.head_weight().detach();
  HeadGradients losses = head_losses(options, rows);
  PolicyGradients result{.values = std::move(losses.values),
                         .gradients = torch::autograd::grad({graph_rows_RD}, parameters, {losses.d_rows_RD},
                                                            /*retain_graph=*/false, /*create_graph=*/false,
                                                            /*allow_unused=*/true),
                         .rows_RD = rows.rows_RD};
  // A tied head is the embedding: its gradient has both parts.
  at::Tensor& head_gradient = result.gradients[head];
  head_gradient = head_gradient.defined() ? head_gradient.add_(losses.d_head_VD) : losses.d_head_VD;
  return result;
}

std::vector<double> to_vector(const at::Tensor& values_R) {
  const at::Tensor contiguous = values_R.detach().to(at::kDouble).contiguous();
  const double* const data = contiguous.const_data_ptr<double>();
  return {data, data + contiguous.numel()};
}

at::Tensor student_rows(const Transformer& student, const PackedTensors& pack) {
  const c10::NoGradGuard no_grad;
  return student.hidden(pack).index_select(0, pack.response_index);
}

}  // namespace memopd

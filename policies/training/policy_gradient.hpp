// One micro-batch through the student: packed forward, all losses at the response rows, gradients of every parameter.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "policies/model/packed_tensors.hpp"
#include "policies/model/transformer.hpp"
#include "policies/training/head_losses.hpp"

namespace memopd {

struct PolicyGradients {
  HeadRowValues values;
  std::vector<at::Tensor> gradients;  ///< one per parameter, in order; undefined where there is none
  at::Tensor rows_RD;                 ///< student's hidden states at response_index, detached
};

/// `rows` without rows_RD and head_VD, which are filled in here. The pack has at least one response token.
/// Thread-safe: several packs may run on one student, each on its own thread, while nobody writes its parameters.
PolicyGradients policy_gradients(const Transformer& student, const PackedTensors& pack, const HeadLossOptions& options,
                                 HeadRows rows);

/// Values of a [R] tensor, without its history.
[[nodiscard]] std::vector<double> to_vector(const at::Tensor& values_R);

/// The same forward without gradients: the hidden states at response_index, [R, D].
at::Tensor student_rows(const Transformer& student, const PackedTensors& pack);

}  // namespace memopd

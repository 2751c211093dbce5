// AdamW over a fixed list of parameters, with gradients and moments in one flat buffer each.
//
// P elements over all parameters, in list order. Semantics of torch.optim.AdamW:
//   p *= 1 - lr wd;  m += (1 - b1)(g - m);  v = b2 v + (1 - b2) g^2;  p -= lr/(1 - b1^t) m / (sqrt(v)/sqrt(1 - b2^t) + eps)
// Own loops, no operation of the tensor library: it would start threads inside an operation on whatever thread calls.
// Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization (2019).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

struct AdamWOptions {
  double beta1 = 0.9;         ///< [0, 1)
  double beta2 = 0.999;       ///< [0, 1)
  double eps = 1e-8;          ///< > 0
  double weight_decay = 0.0;  ///< >= 0
};

/// sum g^2, square-rooted, over a flat buffer; double accumulation. Not finite iff an element is not.
[[nodiscard]] double gradient_norm(const at::Tensor& flat_gradient);

/// torch.nn.utils.clip_grad_norm_'s factor: min(1, max_norm / (norm + 1e-6)).
[[nodiscard]] double clip_factor(double norm, double max_norm);

/// Not thread-safe. The parameter tensors are shared with the model and updated in place; a copy shares them too, and the
/// moments until one of the two is restored.
class AdamW {
 public:
  /// @param parameters  contiguous, CPU, one dtype (float32 | float64), non-empty
  AdamW(std::vector<at::Tensor> parameters, const AdamWOptions& options);

  /// A zero gradient buffer [P].
  [[nodiscard]] at::Tensor make_gradient() const;
  /// gradient[P] += the elements of `gradients`, one per parameter; an undefined tensor counts as zero.
  void accumulate(at::Tensor& flat_gradient, const std::vector<at::Tensor>& gradients) const;

  /// One update with gradient * gradient_scale.
  void step(const at::Tensor& flat_gradient, double learning_rate, double gradient_scale);

  [[nodiscard]] const std::vector<at::Tensor>& parameters() const { return parameters_; }
  [[nodiscard]] std::int64_t num_elements() const { return moment_.numel(); }
  [[nodiscard]] std::int64_t num_updates() const { return num_updates_; }
  [[nodiscard]] const at::Tensor& moment() const { return moment_; }                ///< m, flat
  [[nodiscard]] const at::Tensor& second_moment() const { return second_moment_; }  ///< v, flat

  /// Replaces the state by copies of what an AdamW of the same parameters held.
  /// @error shape_mismatch  moments of another length or dtype
  Expected<void> restore(const at::Tensor& moment, const at::Tensor& second_moment, std::int64_t num_updates);

 private:
  std::vector<at::Tensor> parameters_;
  AdamWOptions options_;
  at::Tensor moment_;
  at::Tensor second_moment_;
  std::int64_t num_updates_ = 0;
};

}  // namespace memopd

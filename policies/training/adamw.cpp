#include "policies/training/adamw.hpp"

#include <ATen/Dispatch.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <cstring>
#include <string>

namespace memopd {
namespace {

struct UpdateFactors {
  double decay = 1;
  double beta1 = 0;
  double beta2 = 0;
  double step_size = 0;
  double inverse_correction2 = 1;  ///< 1 / sqrt(1 - beta2^t)
  double eps = 0;
  double gradient_scale = 1;
};

template <class T>
[[gnu::always_inline]] inline void update(T* parameter, const T* gradient, T* moment, T* second_moment, std::int64_t n,
                                          const UpdateFactors& factors) {
  const auto decay = static_cast<T>(factors.decay);
  const auto keep1 = static_cast<T>(1 - factors.beta1);
  const auto beta2 = static_cast<T>(factors.beta2);
  const auto keep2 = static_cast<T>(1 - factors.beta2);
  const auto step_size = static_cast<T>(factors.step_size);
  const auto correction = static_cast<T>(factors.inverse_correction2);
  const auto eps = static_cast<T>(factors.eps);
  const auto scale = static_cast<T>(factors.gradient_scale);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const T g = gradient[i] * scale;
    const T m = moment[i] + keep1 * (g - moment[i]);
    const T v = beta2 * second_moment[i] + keep2 * g * g;
    moment[i] = m;
    second_moment[i] = v;
    parameter[i] = parameter[i] * decay - step_size * m / (std::sqrt(v) * correction + eps);
  }
}

#if defined(__x86_64__)
// The binary is built for any x86-64; this loop is worth a second copy for processors with AVX2 and FMA.
__attribute__((target("avx2,fma"))) void update_avx2(float* parameter, const float* gradient, float* moment,
                                                     float* second_moment, std::int64_t n,
                                                     const UpdateFactors& factors) {
  update(parameter, gradient, moment, second_moment, n, factors);
}
#endif

void update_any(double* parameter, const double* gradient, double* moment, double* second_moment, std::int64_t n,
                const UpdateFactors& factors) {
  update(parameter, gradient, moment, second_moment, n, factors);
}

void update_any(float* parameter, const float* gradient, float* moment, float* second_moment, std::int64_t n,
                const UpdateFactors& factors) {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (has_avx2) {
    update_avx2(parameter, gradient, moment, second_moment, n, factors);
    return;
  }
#endif
  update(parameter, gradient, moment, second_moment, n, factors);
}

template <class T>
void add_elements(T* sum, const T* summand, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    sum[i] += summand[i];
  }
}

template <class T>
double sum_of_squares(const T* data, std::int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) {
    const auto element = static_cast<double>(data[i]);
    sum += element * element;
  }
  return sum;
}

}  // namespace

double gradient_norm(const at::Tensor& flat_gradient) {
  double squares = 0;
  AT_DISPATCH_FLOATING_TYPES(flat_gradient.scalar_type(), "gradient_norm", [&] {
    squares = sum_of_squares(flat_gradient.const_data_ptr<scalar_t>(), flat_gradient.numel());
  });
  return std::sqrt(squares);
}

double clip_factor(double norm, double max_norm) { return std::min(1.0, max_norm / (norm + 1e-6)); }

AdamW::AdamW(std::vector<at::Tensor> parameters, const AdamWOptions& options)
    : parameters_(std::move(parameters)), options_(options) {
  MEMOPD_CHECK(!parameters_.empty(), "AdamW needs parameters");
  std::int64_t num_elements = 0;
  for (const at::Tensor& parameter : parameters_) {
    MEMOPD_CHECK(parameter.is_contiguous() && parameter.scalar_type() == parameters_.front().scalar_type(),
                 "AdamW needs contiguous parameters of one dtype");
    num_elements += parameter.numel();
  }
  moment_ = at::zeros({num_elements}, parameters_.front().options().requires_grad(false));
  second_moment_ = at::zeros_like(moment_);
}

at::Tensor AdamW::make_gradient() const {
  at::Tensor gradient = at::empty_like(moment_);
  std::memset(gradient.mutable_data_ptr(), 0, gradient.nbytes());
  return gradient;
}

void AdamW::accumulate(at::Tensor& flat_gradient, const std::vector<at::Tensor>& gradients) const {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (gradients[i].defined()) {
      const at::Tensor gradient = gradients[i].contiguous();
      MEMOPD_CHECK(gradient.numel() == parameters_[i].numel(), "a gradient has its parameter's shape");
      AT_DISPATCH_FLOATING_TYPES(flat_gradient.scalar_type(), "accumulate", [&] {
        add_elements(flat_gradient.mutable_data_ptr<scalar_t>() + offset, gradient.const_data_ptr<scalar_t>(),
                     gradient.numel());
      });
    }
    offset += parameters_[i].numel();
  }
}

void AdamW::step(const at::Tensor& flat_gradient, double learning_rate, double gradient_scale) {
  ++num_updates_;
  const auto t = static_cast<double>(num_updates_);
  const UpdateFactors factors{.decay = 1 - learning_rate * options_.weight_decay,
                              .beta1 = options_.beta1,
                              .beta2 = options_.beta2,
                              .step_size = learning_rate / (1 - std::pow(options_.beta1, t)),
                              .inverse_correction2 = 1 / std::sqrt(1 - std::pow(options_.beta2, t)),
                              .eps = options_.eps,
                              .gradient_scale = gradient_scale};
  AT_DISPATCH_FLOATING_TYPES(flat_gradient.scalar_type(), "adamw", [&] {
    std::int64_t offset = 0;
    for (const at::Tensor& parameter : parameters_) {
      // data_ptr, not an in-place operation: the parameters are leaves that require gradients.
      update_any(parameter.data_ptr<scalar_t>(), flat_gradient.const_data_ptr<scalar_t>() + offset,
                 moment_.data_ptr<scalar_t>() + offset, second_moment_.data_ptr<scalar_t>() + offset, parameter.numel(),
                 factors);
      offset += parameter.numel();
    }
  });
}

Expected<void> AdamW::restore(const at::Tensor& moment, const at::Tensor& second_moment, std::int64_t num_updates) {
  for (const at::Tensor* const state : {&moment, &second_moment}) {
    if (state->numel() != moment_.numel() || state->scalar_type() != moment_.scalar_type()) {
      return unexpected(ErrorCode::shape_mismatch, "optimizer state: " + std::to_string(state->numel()) +
                                                       " elements, the model has " + std::to_string(moment_.numel()) +
                                                       " or another dtype");
    }
  }
  moment_ = moment.clone();
  second_moment_ = second_moment.clone();
  num_updates_ = num_updates;
  return {};
}

}  // namespace memopd

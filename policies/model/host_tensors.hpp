// Between tensors as bytes (HostTensor) and tensors of the tensor library, and the check of whole sets.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "policies/model/model_config.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/data/tensor.hpp"

namespace memopd {

/// Copies `tensor` (CPU, any strides). Floating types, int32, int64 and uint8; another one is our own bug.
HostTensor to_host_tensor(std::string name, const at::Tensor& tensor);

/// Copies the values of `source` into `target` of the same shape, converting its dtype.
void copy_from_host(const HostTensor& source, const at::Tensor& target);

/// The same from bytes that lie anywhere, aligned or not: product(shape) values of `dtype`.
void copy_from_bytes(std::span<const std::byte> bytes, DType dtype, const at::Tensor& target);

[[nodiscard]] DType to_dtype(at::ScalarType type);
[[nodiscard]] at::ScalarType to_scalar_type(DType dtype);

/// Compares names and shapes with tensor_specs(config), both ways, and each tensor's bytes with its own shape.
/// A tied model may come with an lm_head.weight only when its bytes are those of the embedding.
/// @error shape_mismatch  every missing, unexpected, wrongly shaped or not floating-point tensor in one message: name,
///                        found, expected
Expected<void> check_tensors(const ModelConfig& config, std::span<const HostTensor* const> tensors);

}  // namespace memopd

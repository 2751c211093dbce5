// Whether the tensors of a checkpoint are those of its config.json: names, shapes and types, both ways. Torch-free.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "policies/model/model_config.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/data/tensor.hpp"

namespace memopd {

/// A tensor of a checkpoint by name, with its type.
struct FoundTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  DType dtype = DType::float32;
};

/// Compares with tensor_specs(config) before any byte is read. A tied model may come with an lm_head.weight.
/// @return  every missing, unexpected, wrongly shaped or not floating-point tensor: name, found, expected
[[nodiscard]] std::vector<std::string> tensor_problems(const ModelConfig& config, std::span<const FoundTensor> found);

/// The same as one error.
/// @error shape_mismatch
Expected<void> check_tensor_specs(const ModelConfig& config, std::span<const FoundTensor> found);

}  // namespace memopd

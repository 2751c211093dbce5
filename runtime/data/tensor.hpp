// Tensors as plain bytes: what crosses actors, without the tensor library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace memopd {

enum class DType : std::uint8_t { float32, float64, bfloat16, float16, int32, int64, uint8 };

[[nodiscard]] std::string_view to_string(DType dtype);
[[nodiscard]] std::size_t size_bytes(DType dtype);

/// Row-major, contiguous, host memory, native byte order.
struct HostTensor {
  std::string name;
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;  ///< product(shape) * size_bytes(dtype)
};

/// The weights of one policy version, complete: what a learner publishes and a student loads.
struct WeightSet {
  std::int64_t lineage = 0;
  std::int64_t policy_version = 0;
  std::vector<HostTensor> tensors;  ///< sorted by name; Hugging Face names
};

}  // namespace memopd

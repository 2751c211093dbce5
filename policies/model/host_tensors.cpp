#include "policies/model/host_tensors.hpp"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "policies/model/tensor_check.hpp"
#include "runtime/base/check.hpp"

namespace memopd {

namespace {

std::uint64_t expected_bytes(const HostTensor& tensor) {
  std::uint64_t bytes = size_bytes(tensor.dtype);
  for (const std::int64_t extent : tensor.shape) bytes *= static_cast<std::uint64_t>(extent);
  return bytes;
}

}  // namespace

DType to_dtype(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return DType::float32;
    case at::kDouble:
      return DType::float64;
    case at::kBFloat16:
      return DType::bfloat16;
    case at::kHalf:
      return DType::float16;
    case at::kInt:
      return DType::int32;
    case at::kLong:
      return DType::int64;
    case at::kByte:
      return DType::uint8;
    default:
      break;
  }
  MEMOPD_CHECK(false, "a tensor of a type that has no DType");
  return DType::uint8;
}

at::ScalarType to_scalar_type(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return at::kFloat;
    case DType::float64:
      return at::kDouble;
    case DType::bfloat16:
      return at::kBFloat16;
    case DType::float16:
      return at::kHalf;
    case DType::int32:
      return at::kInt;
    case DType::int64:
      return at::kLong;
    case DType::uint8:
      return at::kByte;
  }
  return at::kByte;
}

HostTensor to_host_tensor(std::string name, const at::Tensor& tensor) {
  const at::Tensor whole = tensor.detach().contiguous();
  HostTensor host{.name = std::move(name),
                  .dtype = to_dtype(whole.scalar_type()),
                  .shape = {whole.sizes().begin(), whole.sizes().end()},
                  .bytes = {}};
  const auto* begin = static_cast<const std::byte*>(whole.data_ptr());
  host.bytes.assign(begin, begin + whole.nbytes());
  return host;
}

void copy_from_host(const HostTensor& source, const at::Tensor& target) {
  copy_from_bytes(source.bytes, source.dtype, target);
}

void copy_from_bytes(std::span<const std::byte> bytes, DType dtype, const at::Tensor& target) {
  std::vector<std::byte> aligned;
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % size_bytes(dtype) != 0) {
    aligned.assign(bytes.begin(), bytes.end());
    bytes = aligned;
  }
  // from_blob takes a mutable pointer; copy_ only reads it.
  target.copy_(at::from_blob(const_cast<std::byte*>(bytes.data()), target.sizes(), to_scalar_type(dtype)));
}

Expected<void> check_tensors(const ModelConfig& config, std::span<const HostTensor* const> tensors) {
  std::vector<FoundTensor> specs;
  for (const HostTensor* tensor : tensors) specs.push_back({tensor->name, tensor->shape, tensor->dtype});
  MEMOPD_RETURN_IF_ERROR(check_tensor_specs(config, specs));
  const HostTensor* embedding = nullptr;
  const HostTensor* head = nullptr;
  for (const HostTensor* tensor : tensors) {
    if (tensor->bytes.size() != expected_bytes(*tensor)) {
      return unexpected(ErrorCode::shape_mismatch,
                        "weights: " + tensor->name + " holds " + std::to_string(tensor->bytes.size()) + " bytes of " +
                            std::string(to_string(tensor->dtype)) + ", not those of its shape");
    }
    if (tensor->name == "model.embed_tokens.weight") embedding = tensor;
    if (tensor->name == "lm_head.weight") head = tensor;
  }
  if (config.tie_word_embeddings && head != nullptr && head->bytes != embedding->bytes) {
    return unexpected(
        ErrorCode::shape_mismatch,
        "weights: lm_head.weight differs from model.embed_tokens.weight, but tie_word_embeddings is true");
  }
  return {};
}

}  // namespace memopd

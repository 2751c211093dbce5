#include "runtime/data/tensor.hpp"

namespace memopd {

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "float32";
    case DType::float64:
      return "float64";
    case DType::bfloat16:
      return "bfloat16";
    case DType::float16:
      return "float16";
    case DType::int32:
      return "int32";
    case DType::int64:
      return "int64";
    case DType::uint8:
      return "uint8";
  }
  return "unknown";
}

std::size_t size_bytes(DType dtype) {
  switch (dtype) {
    case DType::float32:
    case DType::int32:
      return 4;
    case DType::float64:
    case DType::int64:
      return 8;
    case DType::bfloat16:
    case DType::float16:
      return 2;
    case DType::uint8:
      return 1;
  }
  return 0;
}

}  // namespace memopd

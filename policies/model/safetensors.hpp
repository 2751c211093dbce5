// The safetensors file format: an 8-byte length, a JSON header, the bytes of the tensors. Torch-free.
//
// A file is untrusted: nothing is allocated by a claimed length before it is checked against the file's size, and offsets
// must tile the data exactly (in order, no gap, no overlap), as the format's reference reader demands.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/data/tensor.hpp"

namespace memopd {

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape;
  std::uint64_t offset = 0;      ///< of the first byte, in the file
  std::uint64_t size_bytes = 0;  ///< product(shape) * size_bytes(dtype)
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;        ///< sorted by name
  std::map<std::string, std::string> metadata;  ///< __metadata__
};

/// Reads and checks the header only.
/// @error not_found, io_error  the file
/// @error parse_error   a header that is not what it claims to be; names the tensor
/// @error unsupported   a dtype other than F32, F64, BF16, F16, I32, I64, U8
Expected<SafetensorsHeader> read_safetensors_header(const std::filesystem::path& path);

/// Reads one tensor that `read_safetensors_header` of the same file listed.
Expected<HostTensor> read_safetensors_tensor(const std::filesystem::path& path, const SafetensorsEntry& entry);

/// Reads all tensors, sorted by name.
Expected<std::vector<HostTensor>> read_safetensors(const std::filesystem::path& path);

/// Gives the bytes of one entry, which stay valid until the next call.
using SafetensorsSource = std::function<std::span<const std::byte>(const SafetensorsEntry&)>;

/// Writes beside `path` and renames; one tensor's bytes at a time. Offsets of `entries` are ignored.
/// @error invalid_argument  two entries of one name, a size_bytes or bytes that do not match the shape
/// @error io_error
Expected<void> write_safetensors(const std::filesystem::path& path, std::vector<SafetensorsEntry> entries,
                                 const SafetensorsSource& source,
                                 const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

/// The same from tensors in memory.
Expected<void> write_safetensors(const std::filesystem::path& path, std::span<const HostTensor> tensors,
                                 const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

}  // namespace memopd

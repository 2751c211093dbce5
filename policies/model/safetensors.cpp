#include "policies/model/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

namespace memopd {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

namespace {

using nlohmann::json;

// The reference reader's limit; a header is a few hundred bytes per tensor.
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

std::optional<DType> parse_dtype(const std::string& text) {
  if (text == "F32") return DType::float32;
  if (text == "F64") return DType::float64;
  if (text == "BF16") return DType::bfloat16;
  if (text == "F16") return DType::float16;
  if (text == "I32") return DType::int32;
  if (text == "I64") return DType::int64;
  if (text == "U8") return DType::uint8;
  return std::nullopt;
}

std::string dtype_text(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "F32";
    case DType::float64:
      return "F64";
    case DType::bfloat16:
      return "BF16";
    case DType::float16:
      return "F16";
    case DType::int32:
      return "I32";
    case DType::int64:
      return "I64";
    case DType::uint8:
      return "U8";
  }
  return "U8";
}

/// product(shape) * size of one element; nothing when it does not fit 64 bits.
std::optional<std::uint64_t> byte_count(const std::vector<std::int64_t>& shape, DType dtype) {
  std::uint64_t bytes = size_bytes(dtype);
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) return std::nullopt;
  }
  return bytes;
}

Unexpected malformed(const std::filesystem::path& path, const std::string& what) {
  return unexpected(ErrorCode::parse_error, path.string() + ": " + what);
}

bool is_unsigned_pair(const json& value) {
  return value.is_array() && value.size() == 2 && value[0].is_number_unsigned() && value[1].is_number_unsigned();
}

Expected<SafetensorsEntry> parse_entry(const std::filesystem::path& path, const std::string& name, const json& item) {
  const auto bad = [&](const std::string& what) { return malformed(path, "tensor " + name + ": " + what); };
  if (!item.is_object() || !item.contains("dtype") || !item["dtype"].is_string()) return bad("no dtype");
  if (!item.contains("shape") || !item["shape"].is_array()) return bad("no shape");
  if (!item.contains("data_offsets") || !is_unsigned_pair(item["data_offsets"])) return bad("no data_offsets");

  SafetensorsEntry entry{.name = name, .shape = {}};
  const auto dtype_name = item["dtype"].get<std::string>();
  const auto dtype = parse_dtype(dtype_name);
  if (!dtype) {
    return unexpected(ErrorCode::unsupported, path.string() + ": tensor " + name + ": dtype " + dtype_name +
                                                  " is not one of F32, F64, BF16, F16, I32, I64, U8");
  }
  entry.dtype = *dtype;
  for (const json& extent : item["shape"]) {
    if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
      return bad("a shape that is not a list of sizes");
    }
    entry.shape.push_back(extent.get<std::int64_t>());
  }
  const auto begin = item["data_offsets"][0].get<std::uint64_t>();
  const auto end = item["data_offsets"][1].get<std::uint64_t>();
  const auto expected = byte_count(entry.shape, entry.dtype);
  if (!expected || end < begin || end - begin != *expected) return bad("data_offsets that do not match its shape");
  entry.offset = begin;
  entry.size_bytes = *expected;
  return entry;
}

/// Offsets, still relative to the data, must tile [0, data_bytes) without gap or overlap.
Expected<void> check_tiling(const std::filesystem::path& path, std::vector<SafetensorsEntry>& entries,
                            std::uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.offset, a.size_bytes) < std::pair(b.offset, b.size_bytes);
  });
  std::uint64_t next = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.offset != next) return malformed(path, "tensor " + entry.name + ": overlaps another or leaves a gap");
    next += entry.size_bytes;  // <= 2^64: every size was checked against its offsets
  }
  if (next != data_bytes) {
    return malformed(path,
                     "tensors take " + std::to_string(next) + " bytes, the file holds " + std::to_string(data_bytes));
  }
  return {};
}

Expected<json> parse_header(const std::filesystem::path& path, const std::string& text) {
  // A repeated name would silently hide a tensor, so the parser looks for it; depth is bounded by the format itself.
  std::set<std::string> names;
  bool is_repeated = false;
  bool is_too_deep = false;
  const json::parser_callback_t watch = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > 4) is_too_deep = true;
    if (event == json::parse_event_t::key && depth == 1) is_repeated |= !names.insert(value.get<std::string>()).second;
    return !is_too_deep;
  };
  json header = json::parse(text, watch, /*allow_exceptions=*/false);
  if (is_repeated) return malformed(path, "a tensor name is repeated");
  if (is_too_deep || header.is_discarded() || !header.is_object())
    return malformed(path, "header is not a JSON object");
  return header;
}

Expected<SafetensorsHeader> build_header(const std::filesystem::path& path, const json& items, std::uint64_t data_begin,
                                         std::uint64_t data_bytes) {
  SafetensorsHeader header;
  for (const auto& [name, item] : items.items()) {
    if (name == "__metadata__") {
      if (!item.is_object()) return malformed(path, "__metadata__ is not an object");
      for (const auto& [key, value] : item.items()) {
        if (!value.is_string()) return malformed(path, "__metadata__ " + key + " is not a string");
        header.metadata[key] = value.get<std::string>();
      }
      continue;
    }
    auto entry = parse_entry(path, name, item);
    if (!entry) return unexpected(entry.error());
    header.entries.push_back(std::move(*entry));
  }
  MEMOPD_RETURN_IF_ERROR(check_tiling(path, header.entries, data_bytes));
  for (SafetensorsEntry& entry : header.entries) entry.offset += data_begin;
  std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return header;
}

Expected<void> check_entries(const std::filesystem::path& path, const std::vector<SafetensorsEntry>& sorted) {
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const SafetensorsEntry& entry = sorted[i];
    if (i > 0 && sorted[i - 1].name == entry.name) {
      return unexpected(ErrorCode::invalid_argument, path.string() + ": two tensors named " + entry.name);
    }
    if (byte_count(entry.shape, entry.dtype) != entry.size_bytes) {
      return unexpected(ErrorCode::invalid_argument, path.string() + ": tensor " + entry.name + " holds " +
                                                         std::to_string(entry.size_bytes) +
                                                         " bytes, not those of its shape");
    }
  }
  return {};
}

std::string header_text(const std::vector<SafetensorsEntry>& sorted,
                        const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const SafetensorsEntry& entry : sorted) {
    header[entry.name] = {{"dtype", dtype_text(entry.dtype)},
                          {"shape", entry.shape},
                          {"data_offsets", {offset, offset + entry.size_bytes}}};
    offset += entry.size_bytes;
  }
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');  // the data starts aligned
  return text;
}

}  // namespace

Expected<SafetensorsHeader> read_safetensors_header(const std::filesystem::path& path) {
  std::error_code error;
  const std::uint64_t file_bytes = std::filesystem::file_size(path, error);
  if (error) return unexpected(ErrorCode::not_found, path.string() + ": " + error.message());
  std::ifstream file(path, std::ios::binary);
  std::uint64_t header_bytes = 0;
  if (file_bytes < sizeof(header_bytes)) return malformed(path, "shorter than the 8 bytes of a header length");
  if (!file.read(reinterpret_cast<char*>(&header_bytes), sizeof(header_bytes))) {
    return unexpected(ErrorCode::io_error, path.string() + ": cannot be read");
  }
  if (header_bytes > kMaxHeaderBytes || header_bytes > file_bytes - sizeof(header_bytes)) {
    return malformed(path,
                     "header of " + std::to_string(header_bytes) + " bytes in a file of " + std::to_string(file_bytes));
  }
  std::string text(header_bytes, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(header_bytes))) {
    return unexpected(ErrorCode::io_error, path.string() + ": cannot be read");
  }
  const auto items = parse_header(path, text);
  if (!items) return unexpected(items.error());
  const std::uint64_t data_begin = sizeof(header_bytes) + header_bytes;
  return build_header(path, *items, data_begin, file_bytes - data_begin);
}

Expected<HostTensor> read_safetensors_tensor(const std::filesystem::path& path, const SafetensorsEntry& entry) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return unexpected(ErrorCode::not_found, path.string() + ": cannot be opened");
  HostTensor tensor{.name = entry.name, .dtype = entry.dtype, .shape = entry.shape, .bytes = {}};
  tensor.bytes.resize(entry.size_bytes);
  file.seekg(static_cast<std::streamoff>(entry.offset));
  if (!file.read(reinterpret_cast<char*>(tensor.bytes.data()), static_cast<std::streamsize>(entry.size_bytes))) {
    return unexpected(ErrorCode::io_error, path.string() + ": tensor " + entry.name + " cannot be read");
  }
  return tensor;
}

Expected<std::vector<HostTensor>> read_safetensors(const std::filesystem::path& path) {
  const auto header = read_safetensors_header(path);
  if (!header) return unexpected(header.error());
  std::vector<HostTensor> tensors;
  tensors.reserve(header->entries.size());
  for (const SafetensorsEntry& entry : header->entries) {
    auto tensor = read_safetensors_tensor(path, entry);
    if (!tensor) return unexpected(tensor.error());
    tensors.push_back(std::move(*tensor));
  }
  return tensors;
}

Expected<void> write_safetensors(const std::filesystem::path& path, std::vector<SafetensorsEntry> entries,
                                 const SafetensorsSource& source, const std::map<std::string, std::string>& metadata) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  MEMOPD_RETURN_IF_ERROR(check_entries(path, entries));

  const std::string header = header_text(entries, metadata);
  const std::uint64_t header_bytes = header.size();
  std::filesystem::path partial = path;
  partial += ".partial";
  {
    std::ofstream file(partial, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(&header_bytes), sizeof(header_bytes));
    file.write(header.data(), static_cast<std::streamsize>(header.size()));
    for (const SafetensorsEntry& entry : entries) {
      const std::span<const std::byte> bytes = source(entry);
      if (bytes.size() != entry.size_bytes) {
        return unexpected(ErrorCode::invalid_argument, path.string() + ": tensor " + entry.name + " holds " +
                                                           std::to_string(bytes.size()) + " bytes, announced " +
                                                           std::to_string(entry.size_bytes));
      }
      file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    }
    file.close();
    if (!file) return unexpected(ErrorCode::io_error, partial.string() + ": cannot be written");
  }
  std::error_code error;
  std::filesystem::rename(partial, path, error);
  if (error) return unexpected(ErrorCode::io_error, path.string() + ": " + error.message());
  return {};
}

Expected<void> write_safetensors(const std::filesystem::path& path, std::span<const HostTensor> tensors,
                                 const std::map<std::string, std::string>& metadata) {
  std::vector<SafetensorsEntry> entries;
  std::map<std::string_view, std::span<const std::byte>> bytes;
  for (const HostTensor& tensor : tensors) {
    entries.push_back(
        {.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .size_bytes = tensor.bytes.size()});
    bytes[tensor.name] = tensor.bytes;
  }
  return write_safetensors(
      path, std::move(entries), [&bytes](const SafetensorsEntry& entry) { return bytes.at(entry.name); }, metadata);
}

}  // namespace memopd

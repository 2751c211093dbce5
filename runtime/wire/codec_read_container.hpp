// read_container: vectors, arrays, maps and optionals; part of codec_read.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/wire/codec_write.hpp"
#include "runtime/wire/wire_reader.hpp"

namespace memopd::detail {

template <class T>
bool read_value(WireReader& reader, T& value);

inline constexpr std::size_t kAnyCount = static_cast<std::size_t>(-1);

/// A bin of whole elements: `expected_elements` of them unless that is kAnyCount.
bool read_bin(WireReader& reader, std::size_t element_bytes, std::size_t expected_elements,
              std::span<const std::byte>& bytes);
bool read_exact_array(WireReader& reader, std::size_t expected);

template <class T>
bool read_container(WireReader& reader, std::vector<T>& values) {
  values.clear();
  if constexpr (is_bin_element<T>) {
    std::span<const std::byte> bytes;
    if (!read_bin(reader, sizeof(T), kAnyCount, bytes)) {
      return false;
    }
    values.resize(bytes.size() / sizeof(T));
    if (!bytes.empty()) {
      std::memcpy(values.data(), bytes.data(), bytes.size());
    }
    return true;
  } else {
    std::size_t count = 0;
    if (!reader.read_array(count)) {
      return false;
    }
    if constexpr (std::is_arithmetic_v<T>) {
      values.reserve(count);  // at most 8 bytes for each byte of input
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (!read_value(reader, values.emplace_back())) {
        reader.add_context("[" + std::to_string(i) + "]");
        return false;
      }
    }
    return true;
  }
}

template <class T, std::size_t N>
bool read_container(WireReader& reader, std::array<T, N>& values) {
  if constexpr (is_bin_element<T>) {
    std::span<const std::byte> bytes;
    if (!read_bin(reader, sizeof(T), N, bytes)) {
      return false;
    }
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return true;
  } else {
    if (!read_exact_array(reader, N)) {
      return false;
    }
    for (T& value : values) {
      if (!read_value(reader, value)) {
        return false;
      }
    }
    return true;
  }
}

template <class T>
bool read_container(WireReader& reader, std::map<std::string, T>& values) {
  values.clear();
  std::size_t count = 0;
  if (!reader.read_map(count)) {
    return false;
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::string_view key;
    T value{};
    if (!reader.read_string(key)) {
      return false;
    }
    if (!read_value(reader, value)) {
      reader.add_context("[\"" + std::string(key) + "\"]");
      return false;
    }
    if (!values.emplace(std::string(key), std::move(value)).second) {
      return reader.fail(ErrorCode::parse_error, "key \"" + std::string(key) + "\" appears twice");
    }
  }
  return true;
}

template <class T>
bool read_container(WireReader& reader, std::optional<T>& value) {
  if (reader.take_nil()) {
    value.reset();
    return true;
  }
  return read_value(reader, value.emplace());
}

}  // namespace memopd::detail

// encode and decode: any struct with fields as a msgpack map, and back.
//
// Wire form  struct -> map (keys in field order); bool, integer, enumeration -> bool, int; float, double -> float32, float64
//            by their bits (NaN payloads, infinities and denormals survive); std::string -> str; std::vector<float|double>,
//            <std::byte>, <std::uint8_t> and std::array of these -> bin, little endian; other vectors and arrays -> array;
//            std::map<std::string, T> -> map; std::optional -> the value or nil.
// Decoding   unknown keys are skipped; a missing key is an error unless its field is std::optional; nothing is allocated
//            by a claimed length: a count above the bytes that are left is refused first.
// Pure and thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/wire/codec_read.hpp"
#include "runtime/wire/codec_size.hpp"
#include "runtime/wire/codec_write.hpp"

namespace memopd {

/// Never fails: what the type allows can be written.
template <class T>
[[nodiscard]] std::vector<std::byte> encode(const T& value) {
  WireWriter writer;
  detail::write_value(writer, value);
  return std::move(writer).bytes();
}

/// @error parse_error  truncated, trailing or malformed bytes, claimed lengths beyond the input
/// @error bad_schema   well-formed, but a key is missing or a value has another type or is out of range; names the field
template <class T>
[[nodiscard]] Expected<T> decode(std::span<const std::byte> bytes) {
  WireReader reader(bytes);
  T value{};
  if (detail::read_value(reader, value) && reader.expect_end()) {
    return value;
  }
  return unexpected(reader.error());
}

/// Bytes that `value` occupies, dynamic parts included; O(fields), not O(elements of numeric vectors).
template <class T>
[[nodiscard]] std::size_t memory_bytes(const T& value) {
  return sizeof(T) + detail::dynamic_bytes(value);
}

}  // namespace memopd

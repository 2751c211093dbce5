// write_value: the encoding half of codec.hpp.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "runtime/wire/fields.hpp"
#include "runtime/wire/wire_writer.hpp"

namespace memopd::detail {

static_assert(std::endian::native == std::endian::little, "bin payloads are little endian and copied as they are");

/// Elements that travel as one bin: floating point (bits must survive) and bytes.
template <class T>
inline constexpr bool is_bin_element =
    std::is_floating_point_v<T> || std::is_same_v<T, std::byte> || std::is_same_v<T, std::uint8_t>;

template <class T>
inline constexpr bool always_false = false;

struct FieldCounter {
  std::size_t count = 0;
  template <class Field>
  constexpr void operator()(std::string_view, Field&) {
    ++count;
  }
};

template <HasFields T>
std::size_t num_fields(const T& value) {
  FieldCounter counter;
  memopd_visit_fields(value, counter);
  return counter.count;
}

template <class T>
void write_value(WireWriter& writer, const T& value);

template <class T>
void write_elements(WireWriter& writer, std::span<const T> values) {
  if constexpr (is_bin_element<T>) {
    writer.write_binary(std::as_bytes(values));
  } else {
    writer.begin_array(values.size());
    for (const T& value : values) {
      write_value(writer, value);
    }
  }
}

template <class T>
void write_container(WireWriter& writer, const std::vector<T>& values) {
  static_assert(!std::is_same_v<T, bool>, "std::vector<bool> is not a field type: use std::vector<std::uint8_t>");
  write_elements(writer, std::span<const T>(values));
}

template <class T, std::size_t N>
void write_container(WireWriter& writer, const std::array<T, N>& values) {
  write_elements(writer, std::span<const T>(values));
}

template <class T>
void write_container(WireWriter& writer, const std::map<std::string, T>& values) {
  writer.begin_map(values.size());
  for (const auto& [key, value] : values) {
    writer.write_string(key);
    write_value(writer, value);
  }
}

template <class T>
void write_container(WireWriter& writer, const std::optional<T>& value) {
  if (value) {
    write_value(writer, *value);
  } else {
    writer.write_nil();
  }
}

template <HasFields T>
void write_fields(WireWriter& writer, const T& value) {
  writer.begin_map(num_fields(value));
  memopd_visit_fields(value, [&writer](std::string_view name, const auto& field) {
    writer.write_string(name);
    write_value(writer, field);
  });
}

template <class T>
void write_value(WireWriter& writer, const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    writer.write_bool(value);
  } else if constexpr (std::is_same_v<T, float>) {
    writer.write_float(value);
  } else if constexpr (std::is_same_v<T, double>) {
    writer.write_double(value);
  } else if constexpr (std::unsigned_integral<T>) {
    writer.write_uint(value);
  } else if constexpr (std::signed_integral<T>) {
    writer.write_int(value);
  } else if constexpr (std::is_enum_v<T>) {
    static_assert(HasEnumRange<T>, "this enumeration needs MEMOPD_ENUM(Type, last_enumerator) beside it");
    writer.write_int(static_cast<std::int64_t>(value));
  } else if constexpr (std::is_same_v<T, std::string>) {
    writer.write_string(value);
  } else if constexpr (HasFields<T>) {
    write_fields(writer, value);
  } else if constexpr (requires { write_container(writer, value); }) {
    write_container(writer, value);
  } else {
    static_assert(always_false<T>, "not a field type: see runtime/wire/message.hpp, or give the struct MEMOPD_FIELDS");
  }
}

}  // namespace memopd::detail

// read_value: the decoding half of codec.hpp. Each function returns false at the first problem; the reader keeps it.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/wire/codec_write.hpp"
#include "runtime/wire/fields.hpp"
#include "runtime/wire/wire_reader.hpp"

namespace memopd::detail {

template <class T>
bool read_value(WireReader& reader, T& value);

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

bool read_ranged_int(WireReader& reader, std::int64_t low, std::int64_t high, std::int64_t& value);
bool read_ranged_uint(WireReader& reader, std::uint64_t high, std::uint64_t& value);
/// A bin of whole elements; checks that `size` (if not npos) elements came.
bool read_bin(WireReader& reader, std::size_t element_bytes, std::size_t expected_elements,
              std::span<const std::byte>& bytes);
bool read_exact_array(WireReader& reader, std::size_t expected);

inline constexpr std::size_t kAnyCount = static_cast<std::size_t>(-1);

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

/// Which field a key names, and which fields came.
struct FieldMatch {
  WireReader& reader;
  std::string_view key;
  std::uint64_t& seen;
  std::size_t index = 0;
  bool is_known = false;

  template <class Field>
  void operator()(std::string_view name, Field& field) {
    const std::uint64_t bit = std::uint64_t{1} << index++;
    if (is_known || name != key) {
      return;
    }
    is_known = true;
    if ((seen & bit) != 0) {
      reader.fail(ErrorCode::parse_error, "key \"" + std::string(name) + "\" appears twice");
      return;
    }
    seen |= bit;
    if (!read_value(reader, field)) {
      reader.add_context("." + std::string(name));
    }
  }
};

struct MissingFields {
  WireReader& reader;
  std::uint64_t seen;
  std::size_t index = 0;

  template <class Field>
  void operator()(std::string_view name, Field&) {
    const bool came = (seen & (std::uint64_t{1} << index++)) != 0;
    if (!came && !is_optional<Field> && !reader.has_failed()) {
      reader.fail(ErrorCode::bad_schema, "missing key \"" + std::string(name) + "\"");
    }
  }
};

template <HasFields T>
bool read_fields(WireReader& reader, T& value) {
  std::size_t count = 0;
  if (!reader.read_map(count)) {
    return false;
  }
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::string_view key;
    if (!reader.read_string(key)) {
      return false;
    }
    FieldMatch match{reader, key, seen};
    memopd_visit_fields(value, match);
    if (!match.is_known) {
      reader.skip();
    }
    if (reader.has_failed()) {
      return false;
    }
  }
  memopd_visit_fields(value, MissingFields{reader, seen});
  return !reader.has_failed();
}

template <class T>
bool read_integer(WireReader& reader, T& value) {
  if constexpr (std::unsigned_integral<T>) {
    std::uint64_t wide = 0;
    const bool ok = read_ranged_uint(reader, std::numeric_limits<T>::max(), wide);
    value = static_cast<T>(wide);
    return ok;
  } else {
    std::int64_t wide = 0;
    const bool ok = read_ranged_int(reader, std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), wide);
    value = static_cast<T>(wide);
    return ok;
  }
}

template <class T>
bool read_value(WireReader& reader, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return reader.read_bool(value);
  } else if constexpr (std::is_same_v<T, float>) {
    return reader.read_float(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return reader.read_double(value);
  } else if constexpr (std::integral<T>) {
    return read_integer(reader, value);
  } else if constexpr (std::is_enum_v<T>) {
    static_assert(HasEnumRange<T>, "this enumeration needs MEMOPD_ENUM(Type, last_enumerator) beside it");
    std::int64_t number = 0;
    const bool ok = read_ranged_int(reader, 0, static_cast<std::int64_t>(memopd_last_enumerator(T{})), number);
    value = static_cast<T>(number);
    return ok;
  } else if constexpr (std::is_same_v<T, std::string>) {
    std::string_view text;
    const bool ok = reader.read_string(text);
    value = text;
    return ok;
  } else if constexpr (HasFields<T>) {
    return read_fields(reader, value);
  } else if constexpr (requires { read_container(reader, value); }) {
    return read_container(reader, value);
  } else {
    static_assert(always_false<T>, "not a field type: see runtime/wire/message.hpp, or give the struct MEMOPD_FIELDS");
  }
}

}  // namespace memopd::detail

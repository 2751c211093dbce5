// read_value: the decoding half of codec.hpp. Each function returns false at the first problem; the reader keeps it.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "runtime/wire/codec_read_container.hpp"
#include "runtime/wire/codec_read_fields.hpp"
#include "runtime/wire/codec_write.hpp"
#include "runtime/wire/fields.hpp"
#include "runtime/wire/wire_reader.hpp"

namespace memopd::detail {

bool read_ranged_int(WireReader& reader, std::int64_t low, std::int64_t high, std::int64_t& value);
bool read_ranged_uint(WireReader& reader, std::uint64_t high, std::uint64_t& value);

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

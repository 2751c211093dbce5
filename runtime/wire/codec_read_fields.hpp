// read_fields: a struct from a map of its field names; part of codec_read.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

}  // namespace memopd::detail

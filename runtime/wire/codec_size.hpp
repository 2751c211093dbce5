// dynamic_bytes: heap bytes behind a value, for traffic counters where messages travel as pointers.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "runtime/wire/fields.hpp"

namespace memopd::detail {

template <class T>
std::size_t dynamic_bytes(const T& value);

template <class T>
std::size_t container_bytes(const std::vector<T>& values) {
  std::size_t total = values.size() * sizeof(T);
  if constexpr (!std::is_arithmetic_v<T> && !std::is_enum_v<T>) {
    for (const T& value : values) {
      total += dynamic_bytes(value);
    }
  }
  return total;
}

template <class T, std::size_t N>
std::size_t container_bytes(const std::array<T, N>& values) {
  std::size_t total = 0;
  for (const T& value : values) {
    total += dynamic_bytes(value);
  }
  return total;
}

template <class T>
std::size_t container_bytes(const std::map<std::string, T>& values) {
  std::size_t total = 0;
  for (const auto& [key, value] : values) {
    total += sizeof(key) + key.size() + sizeof(value) + dynamic_bytes(value);
  }
  return total;
}

template <class T>
std::size_t container_bytes(const std::optional<T>& value) {
  return value ? dynamic_bytes(*value) : 0;
}

template <class T>
std::size_t dynamic_bytes(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value.size();
  } else if constexpr (HasFields<T>) {
    std::size_t total = 0;
    memopd_visit_fields(value, [&total](std::string_view, const auto& field) { total += dynamic_bytes(field); });
    return total;
  } else if constexpr (requires { container_bytes(value); }) {
    return container_bytes(value);
  } else {
    return 0;
  }
}

}  // namespace memopd::detail

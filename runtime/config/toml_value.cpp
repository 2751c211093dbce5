#include "runtime/config/toml_value.hpp"

#include <fmt/format.h>

namespace memopd::detail {

std::optional<SettingValue> to_setting_value(const toml::node& node) {
  if (const auto* value = node.as_boolean()) {
    return SettingValue(value->get());
  }
  if (const auto* value = node.as_integer()) {
    return SettingValue(value->get());
  }
  if (const auto* value = node.as_floating_point()) {
    return SettingValue(value->get());
  }
  if (const auto* value = node.as_string()) {
    return SettingValue(value->get());
  }
  if (const auto* array = node.as_array()) {
    std::vector<std::int64_t> items;
    for (const toml::node& item : *array) {
      const auto* integer = item.as_integer();
      if (integer == nullptr) {
        return std::nullopt;
      }
      items.push_back(integer->get());
    }
    return SettingValue(std::move(items));
  }
  return std::nullopt;
}

std::optional<std::string> to_option(const toml::node& node) {
  const auto value = to_setting_value(node);
  if (!value || node.is_array()) {
    return std::nullopt;
  }
  const auto* words = std::get_if<std::string>(&*value);
  return words != nullptr ? *words : to_toml(*value);
}

std::string describe_node(const toml::node& node) {
  const auto value = to_setting_value(node);
  switch (node.type()) {
    case toml::node_type::none:
      return "nothing";
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return value && !node.as_array()->empty() ? "array " + to_toml(*value) : "an array";
    case toml::node_type::string:
      return "string " + to_toml(*value);
    case toml::node_type::integer:
      return "integer " + to_toml(*value);
    case toml::node_type::floating_point:
      return "number " + to_toml(*value);
    case toml::node_type::boolean:
      return "boolean " + to_toml(*value);
    case toml::node_type::date:
      return "a date";
    case toml::node_type::time:
      return "a time";
    case toml::node_type::date_time:
      return "a date and time";
  }
  return "something else";
}

}  // namespace memopd::detail

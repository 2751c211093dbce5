// Between toml++ nodes and setting values. Internal to this folder.
#pragma once

#include <toml++/toml.h>

#include <optional>
#include <string>

#include "runtime/config/field_table.hpp"

namespace memopd::detail {

/// The value of a node; nothing for tables, dates and arrays of anything but integers.
[[nodiscard]] std::optional<SettingValue> to_setting_value(const toml::node& node);

/// A string, number or boolean as the text that an options table keeps.
[[nodiscard]] std::optional<std::string> to_option(const toml::node& node);

/// What a person would call it: string "a", integer 3, a table, ..
[[nodiscard]] std::string describe_node(const toml::node& node);

}  // namespace memopd::detail

// Finding settings by name, and what to say about a name that does not exist. Internal to this folder.
#pragma once

#include <string>
#include <string_view>

#include "runtime/config/field_table.hpp"

namespace memopd::detail {

[[nodiscard]] const Field* find_field(const Table& table, std::string_view name);
[[nodiscard]] const Table* find_child(const Table& table, std::string_view name);

/// "unknown key opd.cofe, did you mean opd.coef"; without a near name in the table: one of the same name in another
/// table, else the names that the table has.
/// @param prefix  of the table, "opd." or "env.0."
/// @param name    full name; `key` its last part
[[nodiscard]] std::string unknown_name(const Table& table, const std::string& prefix, const std::string& name,
                                       const std::string& key, bool is_table);

}  // namespace memopd::detail

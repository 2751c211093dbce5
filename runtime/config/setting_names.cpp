#include "runtime/config/setting_names.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace memopd::detail {
namespace {

template <class Named>
const Named* find_named(const std::vector<Named>& items, std::string_view name) {
  const auto found = std::find_if(items.begin(), items.end(), [&](const Named& item) { return item.name == name; });
  return found == items.end() ? nullptr : &*found;
}

std::vector<std::string> names_in(const Table& table) {
  std::vector<std::string> names;
  for (const Field& field : table.fields) {
    names.push_back(field.name);
  }
  for (const Table& child : table.children) {
    names.push_back(child.name);
  }
  if (table.options) {
    names.emplace_back("options");
  }
  return names;
}

/// Full names of the settings called `key` anywhere below `table`.
void collect_named(const Table& table, const std::string& prefix, std::string_view key,
                   std::vector<std::string>& found) {
  if (find_field(table, key) != nullptr) {
    found.push_back(prefix + std::string(key));
  }
  for (const Table& child : table.children) {
    collect_named(child, prefix + child.name + ".", key, found);
  }
}

}  // namespace

const Field* find_field(const Table& table, std::string_view name) { return find_named(table.fields, name); }
const Table* find_child(const Table& table, std::string_view name) { return find_named(table.children, name); }

std::string unknown_name(const Table& table, const std::string& prefix, const std::string& name, const std::string& key,
                         bool is_table) {
  const std::string problem = fmt::format("unknown {} {}", is_table ? "table" : "key", name);
  const std::vector<std::string> names = names_in(table);
  if (const auto nearest = nearest_name(key, names)) {
    return fmt::format("{}, did you mean {}{}", problem, prefix, *nearest);
  }
  std::vector<std::string> elsewhere;
  collect_named(config_table(), "", key, elsewhere);
  if (!elsewhere.empty() && !is_table) {
    return fmt::format("{}, did you mean {}", problem, fmt::join(elsewhere, " or "));
  }
  return fmt::format("{}, {} has: {}", problem, prefix.empty() ? "a config" : prefix.substr(0, prefix.size() - 1),
                     fmt::join(names, " "));
}

}  // namespace memopd::detail

#include <fmt/format.h>

#include <algorithm>

#include "runtime/config/field_table.hpp"
#include "runtime/config/load.hpp"

namespace memopd {
namespace {

using detail::Field;
using detail::Table;

bool is_bare_key(const std::string& key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

void dump_table(const Table& table, void* object, const std::string& name, bool is_array, std::string& out) {
  if (!name.empty()) {
    out += fmt::format(fmt::runtime(is_array ? "{}[[{}]]\n" : "{}[{}]\n"), out.empty() ? "" : "\n", name);
  }
  for (const Field& field : table.fields) {
    out += fmt::format("{} = {}\n", field.name, detail::to_toml(field.get(object)));
  }
  const std::string prefix = name.empty() ? "" : name + ".";
  if (table.options && !table.options(object)->empty()) {
    out += fmt::format("\n[{}options]\n", prefix);
    for (const auto& [key, value] : *table.options(object)) {
      out += fmt::format("{} = {}\n", is_bare_key(key) ? key : detail::quote_toml(key), detail::quote_toml(value));
    }
  }
  for (const Table& child : table.children) {
    const std::size_t count = child.is_array ? child.size(object) : 1;
    for (std::size_t i = 0; i < count; ++i) {
      dump_table(child, child.at(object, i), prefix + child.name, child.is_array, out);
    }
  }
}

void describe_table(const Table& table, void* object, const std::string& name, std::string& out) {
  if (!name.empty()) {
    out += fmt::format(fmt::runtime(table.is_array ? "{}[[{}]]  {}\n" : "{}[{}]  {}\n"), out.empty() ? "" : "\n", name,
                       table.doc);
  }
  for (const Field& field : table.fields) {
    out += fmt::format("  {:<46} {:<36} {}\n", field.name + " = " + detail::to_toml(field.get(object)),
                       describe_allowed(field), field.doc);
  }
  if (table.options) {
    out += fmt::format("  {:<46} {:<36} {}\n", "options.<key>", "a string, number or boolean",
                       "settings of its own; it checks them");
  }
  for (const Table& child : table.children) {
    if (child.is_array) {
      child.append(object);
    }
    describe_table(child, child.at(object, 0), name.empty() ? child.name : name + "." + child.name, out);
  }
}

}  // namespace

std::string dump_config(const Config& config) {
  Config copy = config;
  std::string out;
  dump_table(detail::config_table(), &copy, "", false, out);
  return out;
}

std::string config_reference() {
  Config defaults;
  std::string out;
  describe_table(detail::config_table(), &defaults, "", out);
  return out;
}

}  // namespace memopd

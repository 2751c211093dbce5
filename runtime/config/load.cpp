#include "runtime/config/load.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <fstream>
#include <iterator>
#include <utility>

#include "runtime/config/overrides.hpp"
#include "runtime/config/setting_names.hpp"
#include "runtime/config/toml_value.hpp"

namespace memopd {
namespace {

using detail::Field;
using detail::Table;

/// Walks a parsed file beside the field table, sets what is right and notes what is not.
class Loader {
 public:
  Loader(std::string source_name, Config& config, std::vector<std::string>& problems)
      : source_name_(std::move(source_name)), config_(config), problems_(problems) {}

  void load(const toml::table& root) { load_table(root, detail::config_table(), &config_, ""); }

 private:
  void load_table(const toml::table& source, const Table& table, void* object, const std::string& prefix) {
    for (const auto& [key, node] : source) {
      const std::string name = prefix + std::string(key.str());
      if (const Field* field = detail::find_field(table, key.str())) {
        load_field(node, *field, object, name);
      } else if (const Table* child = detail::find_child(table, key.str())) {
        load_child(node, *child, object, name);
      } else if (table.options && key.str() == "options") {
        load_options(node, *table.options(object), name);
      } else {
        add_problem(key.source(), detail::unknown_name(table, prefix, name, std::string(key.str()),
                                                       node.is_table() || node.is_array_of_tables()));
      }
    }
  }

  void load_field(const toml::node& node, const Field& field, void* object, const std::string& name) {
    auto value = detail::to_setting_value(node);
    if (!value) {
      add_problem(node.source(),
                  fmt::format("{}: found {}, allowed {}", name, detail::describe_node(node), describe_allowed(field)));
      return;
    }
    if (const auto problem = check_value(field, *value)) {
      add_problem(node.source(), fmt::format("{}: {}", name, *problem));
      return;
    }
    field.set(object, *value);
    config_.origins.by_name[name] = place(node.source());
  }

  void load_child(const toml::node& node, const Table& child, void* object, const std::string& name) {
    const toml::array* array = node.as_array();
    if (!child.is_array) {
      if (const toml::table* source = node.as_table()) {
        load_table(*source, child, child.at(object, 0), name + ".");
      } else {
        add_problem(node.source(),
                    fmt::format("{}: found {}, allowed a table ([{}])", name, detail::describe_node(node), name));
      }
      return;
    }
    if (array == nullptr) {
      add_problem(node.source(), fmt::format("{}: found {}, allowed an array of tables ([[{}]])", name,
                                             detail::describe_node(node), name));
      return;
    }
    for (const toml::node& element : *array) {
      const std::string element_name = fmt::format("{}.{}", name, child.size(object));
      child.append(object);
      if (const toml::table* source = element.as_table()) {
        load_table(*source, child, child.at(object, child.size(object) - 1), element_name + ".");
      } else {
        add_problem(element.source(),
                    fmt::format("{}: found {}, allowed a table", element_name, detail::describe_node(element)));
      }
    }
  }

  void load_options(const toml::node& node, detail::Options& options, const std::string& name) {
    const toml::table* source = node.as_table();
    if (source == nullptr) {
      add_problem(node.source(), fmt::format("{}: found {}, allowed a table", name, detail::describe_node(node)));
      return;
    }
    for (const auto& [key, value] : *source) {
      const std::string option_name = fmt::format("{}.{}", name, key.str());
      if (const auto printed = detail::to_option(value)) {
        options[std::string(key.str())] = *printed;
        config_.origins.by_name[option_name] = place(value.source());
      } else {
        add_problem(value.source(), fmt::format("{}: found {}, allowed a string, number or boolean", option_name,
                                                detail::describe_node(value)));
      }
    }
  }

  std::string place(const toml::source_region& source) const {
    return fmt::format("{}:{}:{}", source_name_, source.begin.line, source.begin.column);
  }
  void add_problem(const toml::source_region& source, const std::string& problem) {
    problems_.push_back(place(source) + ": " + problem);
  }

  std::string source_name_;
  Config& config_;
  std::vector<std::string>& problems_;
};

void load_text(std::string_view text, const std::string& source_name, Config& config,
               std::vector<std::string>& problems) {
  try {
    const toml::table root = toml::parse(text, std::string_view(source_name));
    Loader(source_name, config, problems).load(root);
  } catch (const toml::parse_error& error) {
    const auto place = error.source().begin;
    problems.push_back(
        fmt::format("{}:{}:{}: not TOML: {}", source_name, place.line, place.column, error.description()));
  }
}

}  // namespace

Expected<Config> parse_config(std::string_view text, std::string_view source_name,
                              std::span<const std::string> overrides) {
  try {
    Config config;
    std::vector<std::string> problems;
    load_text(text, std::string(source_name), config, problems);
    detail::apply_overrides(overrides, config, problems);
    if (!problems.empty()) {
      return unexpected(ErrorCode::config_error, fmt::format("{}", fmt::join(problems, "\n")));
    }
    return config;
  } catch (const std::exception& error) {
    return unexpected(ErrorCode::internal, fmt::format("config {}: {}", source_name, error.what()));
  }
}

Expected<Config> load_config(const std::filesystem::path& path, std::span<const std::string> overrides) {
  std::error_code status;
  if (!std::filesystem::exists(path, status)) {
    return unexpected(ErrorCode::not_found, fmt::format("config file {}: no such file", path.string()));
  }
  if (std::filesystem::is_directory(path, status)) {
    return unexpected(ErrorCode::io_error, fmt::format("config file {}: is a folder", path.string()));
  }
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) {
    return unexpected(ErrorCode::io_error, fmt::format("config file {}: cannot be read", path.string()));
  }
  return parse_config(text, path.string(), overrides);
}

}  // namespace memopd

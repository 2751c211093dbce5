#include "runtime/config/overrides.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <charconv>
#include <memory>
#include <optional>

#include "runtime/config/setting_names.hpp"
#include "runtime/config/toml_value.hpp"

namespace memopd::detail {
namespace {

/// What a full name leads to: a field of `object`, or an entry of its options.
struct Target {
  const Field* field = nullptr;
  void* object = nullptr;
  Options* options = nullptr;
  std::string option;
  std::string problem;  ///< why it leads nowhere
};

std::optional<std::size_t> parse_index(std::string_view text) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() ? std::optional(index)
                                                                                   : std::nullopt;
}

/// Splits off the part before the next dot.
std::string take_part(std::string& rest) {
  const auto dot = rest.find('.');
  std::string part = rest.substr(0, dot);
  rest = dot == std::string::npos ? "" : rest.substr(dot + 1);
  return part;
}

std::string describe_index(const Table& child, const std::string& name, std::size_t size, const std::string& found) {
  if (size == 0) {
    return fmt::format("{}: there is no [[{}]] to change", name, name);
  }
  return fmt::format("{}: found index \"{}\", allowed 0..{} (as in {}.0.{})", name, found, size - 1, name,
                     child.fields.front().name);
}

Target find_target(const std::string& name, Config& config) {
  const Table* table = &config_table();
  Target target;
  target.object = &config;
  std::string rest = name;
  std::string prefix;
  while (true) {
    const std::string part = take_part(rest);
    if (rest.empty()) {
      target.field = find_field(*table, part);
      if (target.field == nullptr) {
        target.problem = find_child(*table, part) != nullptr
                             ? fmt::format("{} is a table, name one of its keys", prefix + part)
                             : unknown_name(*table, prefix, prefix + part, part, false);
      }
      return target;
    }
    if (table->options && part == "options") {
      target.options = table->options(target.object);
      target.option = rest;
      return target;
    }
    const Table* child = find_child(*table, part);
    if (child == nullptr) {
      target.problem = find_field(*table, part) != nullptr ? fmt::format("{} is a key, not a table", prefix + part)
                                                           : unknown_name(*table, prefix, prefix + part, part, true);
      return target;
    }
    prefix += part + ".";
    std::size_t index = 0;
    if (child->is_array) {
      const std::size_t size = child->size(target.object);
      const std::string index_text = take_part(rest);
      const auto parsed = parse_index(index_text);
      if (!parsed || *parsed >= size) {
        target.problem = describe_index(*child, prefix.substr(0, prefix.size() - 1), size, index_text);
        return target;
      }
      index = *parsed;
      prefix += index_text + ".";
    }
    target.object = child->at(target.object, index);
    table = child;
  }
}

bool is_quoted(const std::string& value) { return !value.empty() && (value.front() == '"' || value.front() == '\''); }

/// `value` as the only value of a TOML document; null when it is not one.
std::unique_ptr<toml::node> parse_node(const std::string& value, bool is_bare_text) {
  try {
    toml::table document = toml::parse("value = " + (is_bare_text ? quote_toml(value) : value));
    toml::node* node = document.get("value");
    if (document.size() != 1 || node == nullptr) {
      return nullptr;
    }
    if (auto* array = node->as_array()) {
      return std::make_unique<toml::array>(std::move(*array));
    }
    if (auto* table = node->as_table()) {
      return std::make_unique<toml::table>(std::move(*table));
    }
    return node->visit([](auto& typed) -> std::unique_ptr<toml::node> {
      return std::make_unique<std::remove_cvref_t<decltype(typed)>>(std::move(typed));
    });
  } catch (const toml::parse_error&) {
    return nullptr;
  }
}

/// Sets the target; what is wrong with the value otherwise.
std::optional<std::string> set_target(const Target& target, const std::string& name, const std::string& value) {
  const bool takes_text = target.options != nullptr || target.field->kind == Kind::text;
  const auto node = parse_node(value, takes_text && !is_quoted(value));
  if (target.options != nullptr) {
    if (node == nullptr || !node->is_string()) {
      return fmt::format("{}: found {}, allowed text in UTF-8", name, value);
    }
    (*target.options)[target.option] = *to_option(*node);
    return std::nullopt;
  }
  if (node == nullptr) {
    return fmt::format("{}: found {}, allowed {}", name, value, describe_allowed(*target.field));
  }
  auto setting = to_setting_value(*node);
  if (!setting) {
    return fmt::format("{}: found {}, allowed {}", name, describe_node(*node), describe_allowed(*target.field));
  }
  if (const auto problem = check_value(*target.field, *setting)) {
    return fmt::format("{}: {}", name, *problem);
  }
  target.field->set(target.object, *setting);
  return std::nullopt;
}

}  // namespace

void apply_overrides(std::span<const std::string> overrides, Config& config, std::vector<std::string>& problems) {
  std::map<std::string, std::string> seen;
  for (const std::string& override_text : overrides) {
    const auto add_problem = [&](const std::string& problem) {
      problems.push_back(fmt::format("--set {}: {}", override_text, problem));
    };
    const auto equals = override_text.find('=');
    if (equals == std::string::npos || equals == 0) {
      add_problem("expected name=value, as in opd.coef=0.5");
      continue;
    }
    const std::string name = override_text.substr(0, equals);
    if (const auto [earlier, is_new] = seen.emplace(name, override_text); !is_new) {
      add_problem(fmt::format("{} is already set by --set {}", name, earlier->second));
      continue;
    }
    const Target target = find_target(name, config);
    if (!target.problem.empty()) {
      add_problem(target.problem);
    } else if (const auto problem = set_target(target, name, override_text.substr(equals + 1))) {
      add_problem(*problem);
    } else {
      config.origins.by_name[name] = "--set";
    }
  }
}

}  // namespace memopd::detail

#include "envs/registry.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "envs/atlas/environment.hpp"
#include "envs/examples/guess_word.hpp"
#include "envs/options.hpp"

namespace memopd {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, EnvironmentDefinition> definitions;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

bool is_name(const std::string& name) {
  const auto is_allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && std::all_of(name.begin(), name.end(), is_allowed);
}

/// What `part` of the environment's definition makes from completed options.
template <class Part>
auto make(const std::string& name, const EnvOptions& options, Part part, std::string_view part_name)
    -> std::invoke_result_t<decltype(std::declval<EnvironmentDefinition&>().*part), const EnvOptions&> {
  const auto definition = find_environment(name);
  if (!definition) {
    return unexpected(definition.error());
  }
  auto completed = complete_options(name, definition->options, options);
  if (!completed) {
    return unexpected(completed.error());
  }
  const auto& factory = (*definition).*part;
  if (!factory) {
    return unexpected(ErrorCode::unsupported, fmt::format("environment {} has no {}", name, part_name));
  }
  return factory(*completed);
}

}  // namespace

Expected<void> register_environment(EnvironmentDefinition definition) {
  if (!is_name(definition.name) || !definition.make_environment) {
    return unexpected(ErrorCode::invalid_argument,
                      fmt::format("environment `{}`: needs a name of lower-case letters, digits and _, and a factory",
                                  definition.name));
  }
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::string name = definition.name;
  if (!all.definitions.try_emplace(name, std::move(definition)).second) {
    return unexpected(ErrorCode::already_exists, fmt::format("environment {} is registered already", name));
  }
  return {};
}

void register_builtin_environments() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (auto make_definition : {&atlas::definition, &examples::guess_word_definition}) {
      const auto registered = register_environment(make_definition());
      MEMOPD_CHECK(registered.has_value(), registered.error().message);
    }
  });
}

std::vector<std::string> environment_names() {
  register_builtin_environments();
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::vector<std::string> names;
  for (const auto& [name, definition] : all.definitions) {
    names.push_back(name);
  }
  return names;
}

Expected<EnvironmentDefinition> find_environment(const std::string& name) {
  const std::vector<std::string> names = environment_names();
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.definitions.find(name);
  if (found != all.definitions.end()) {
    return found->second;
  }
  const std::string nearest = nearest_name(name, names);
  const std::string hint = nearest.empty() ? "" : fmt::format(", did you mean {}", nearest);
  return unexpected(ErrorCode::not_found,
                    fmt::format("unknown environment `{}`{}; known are: {}", name, hint, fmt::join(names, ", ")));
}

Expected<std::unique_ptr<Environment>> make_environment(const std::string& name, const EnvOptions& options) {
  return make(name, options, &EnvironmentDefinition::make_environment, "slots");
}

Expected<std::unique_ptr<TaskSource>> make_task_source(const std::string& name, const EnvOptions& options) {
  return make(name, options, &EnvironmentDefinition::make_task_source, "tasks of its own; give a task file");
}

Expected<std::unique_ptr<Expert>> make_expert(const std::string& name, const EnvOptions& options) {
  return make(name, options, &EnvironmentDefinition::make_expert, "scripted expert");
}

Expected<std::vector<Document>> environment_corpus(const std::string& name, const EnvOptions& options) {
  return make(name, options, &EnvironmentDefinition::make_corpus, "documents of its own; give a corpus file");
}

}  // namespace memopd

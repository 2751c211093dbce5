// The environments this program knows, by name: how one is made, where its tasks, expert and documents come from.
//
// A compiled-in environment is one EnvironmentDefinition. Those of this folder are registered by the first look-up, so
// a static library cannot lose them; others register themselves with MEMOPD_REGISTER_ENVIRONMENT or by a call.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "envs/environment.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/data/task.hpp"

namespace memopd {

/// What a run says about one environment: [[env]] scorer and [env.options].
struct EnvOptions {
  std::filesystem::path data_folder{};           ///< for environments that read files; relative paths start here
  std::string scorer = "f1";                     ///< the reward of question answering: see envs/scoring.hpp
  std::map<std::string, std::string> options{};  ///< of the environment itself; unknown keys are errors
};

/// One key of [env.options].
struct OptionSpec {
  std::string name;
  std::string default_value;
  std::string description;  ///< meaning, unit and range in one line
};

struct EnvironmentDefinition {
  std::string name;         ///< lower case, digits, '_'
  std::string description;  ///< one line
  std::vector<OptionSpec> options;
  /// Called with options that hold every key of `options` above, defaults filled in.
  std::function<Expected<std::unique_ptr<Environment>>(const EnvOptions&)> make_environment;
  std::function<Expected<std::unique_ptr<TaskSource>>(const EnvOptions&)>
      make_task_source;                                                             ///< empty: tasks from files
  std::function<Expected<std::unique_ptr<Expert>>(const EnvOptions&)> make_expert;  ///< empty: has none
  std::function<Expected<std::vector<Document>>(const EnvOptions&)> make_corpus;    ///< empty: no own documents
};

/// @error invalid_argument  bad name or no make_environment
/// @error already_exists    a definition of that name is registered
/// Thread-safe, as are all functions of this header.
Expected<void> register_environment(EnvironmentDefinition definition);

/// Registers the environments of this folder; further calls do nothing. Every look-up below calls it.
void register_builtin_environments();

/// Sorted.
[[nodiscard]] std::vector<std::string> environment_names();

/// @error not_found  no such environment; names the nearest and all known ones
Expected<EnvironmentDefinition> find_environment(const std::string& name);

/// @error not_found         no such environment
/// @error invalid_argument  an option key that the environment does not have (names the nearest), or a bad value
/// @error unsupported       make_task_source, make_expert, environment_corpus: the environment has none
Expected<std::unique_ptr<Environment>> make_environment(const std::string& name, const EnvOptions& options);
Expected<std::unique_ptr<TaskSource>> make_task_source(const std::string& name, const EnvOptions& options);
Expected<std::unique_ptr<Expert>> make_expert(const std::string& name, const EnvOptions& options);
/// The documents that the environment's questions are about, for a retriever.
Expected<std::vector<Document>> environment_corpus(const std::string& name, const EnvOptions& options);

}  // namespace memopd

/// Registers at program start, from any .cpp that is linked: MEMOPD_REGISTER_ENVIRONMENT(my_env, make_definition())
#define MEMOPD_REGISTER_ENVIRONMENT(identifier, definition) \
  static const bool memopd_environment_##identifier = ::memopd::register_environment(definition).has_value()

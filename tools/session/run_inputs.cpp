#include "tools/session/run_inputs.hpp"

#include <filesystem>
#include <system_error>

namespace memopd {

std::vector<std::string> run_inputs(const Config& config) {
  std::vector<std::string> named = {config.student.model, config.student.tokenizer, config.retriever.corpus,
                                    config.retriever.index};
  if (config.opd.coef > 0 || config.eval.teacher) {
    named.push_back(config.teacher.model);
  }
  for (const EnvConfig& env : config.env) {
    named.push_back(env.tasks);
    for (const auto& [option, value] : env.options) {
      named.push_back(value);
    }
  }
  std::vector<std::string> inputs;
  for (const std::string& path : named) {
    std::error_code failed;
    if (!path.empty() && std::filesystem::path(path).is_relative() && std::filesystem::exists(path, failed)) {
      inputs.push_back(path);
    }
  }
  return inputs;
}

}  // namespace memopd

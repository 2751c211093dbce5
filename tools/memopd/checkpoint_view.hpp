// `memopd checkpoint show`: what a checkpoint, or any Hugging Face folder, holds, and whether its parts fit each other.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "policies/model/safetensors.hpp"
#include "runtime/base/expected.hpp"
#include "tools/memopd/model_report.hpp"

namespace memopd {

struct CheckpointView {
  struct File {
    std::string name;  ///< relative to the folder: "policy/model.safetensors"
    std::vector<SafetensorsEntry> tensors;
  };
  std::filesystem::path folder;
  std::string state_json;           ///< of state.json; "" = none
  std::vector<ModelReport> models;  ///< of every folder with a config.json
  std::vector<File> files;          ///< every *.safetensors in the folder and one below, by name
};

/// @error not_found    neither a checkpoint nor a model there
/// @error parse_error, unsupported  a file that is not what it claims to be; names it
[[nodiscard]] Expected<CheckpointView> view_checkpoint(const std::filesystem::path& folder);

[[nodiscard]] std::string to_text(const CheckpointView& view);
[[nodiscard]] std::string to_json(const CheckpointView& view);

}  // namespace memopd

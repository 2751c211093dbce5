#include "tools/memopd/checkpoint_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <system_error>

namespace memopd {
namespace {

namespace fs = std::filesystem;

std::int64_t num_elements(const SafetensorsEntry& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string shape_text(const SafetensorsEntry& tensor) {
  std::string text;
  for (const std::int64_t size : tensor.shape) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", size);
  }
  return "[" + text + "]";
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Expected<void> add_folder(const fs::path& root, const fs::path& folder, CheckpointView& view) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".safetensors") {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<fs::path> model_files;
  std::vector<FoundTensor> tensors;
  for (const fs::path& path : paths) {
    auto header = read_safetensors_header(path);
    if (!header) {
      return unexpected(header.error());
    }
    if (path.filename().string().starts_with("model")) {
      model_files.push_back(path);
      for (const SafetensorsEntry& entry : header->entries) {
        tensors.push_back({entry.name, entry.shape, entry.dtype});
      }
    }
    view.files.push_back({path.lexically_relative(root).string(), std::move(header->entries)});
  }
  // A critic with the student's trunk has a head alone and no config.json.
  if (fs::exists(folder / "config.json", error)) {
    const std::string name = folder == root ? "model" : folder.filename().string();
    view.models.push_back(report_model(name, folder, model_files, tensors));
  }
  return {};
}

}  // namespace

Expected<CheckpointView> view_checkpoint(const fs::path& folder) {
  CheckpointView view;
  view.folder = folder;
  MEMOPD_RETURN_IF_ERROR(add_folder(folder, folder, view));
  std::vector<fs::path> below;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_directory()) {
      below.push_back(entry.path());
    }
  }
  std::sort(below.begin(), below.end());
  for (const fs::path& path : below) {
    MEMOPD_RETURN_IF_ERROR(add_folder(folder, path, view));
  }
  if (view.files.empty()) {
    return unexpected(ErrorCode::not_found,
                      fmt::format("{}: neither a checkpoint nor a model: no safetensors file", folder.string()));
  }
  if (fs::exists(folder / "state.json", error)) {
    view.state_json = read_text(folder / "state.json");
    if (!nlohmann::json::accept(view.state_json)) {
      return unexpected(ErrorCode::parse_error, fmt::format("{}: not JSON", (folder / "state.json").string()));
    }
  }
  return view;
}

std::string to_text(const CheckpointView& view) {
  std::string text = view.folder.string() + "\n";
  if (!view.state_json.empty()) {
    const auto state = nlohmann::ordered_json::parse(view.state_json);
    for (const auto& [key, value] : state.items()) {
      text += fmt::format("  {:20} {}\n", key, value.dump());
    }
  }
  for (const ModelReport& model : view.models) {
    text += to_text(model);
  }
  for (const CheckpointView::File& file : view.files) {
    std::int64_t elements = 0;
    std::uint64_t bytes = 0;
    std::string lines;
    for (const SafetensorsEntry& tensor : file.tensors) {
      elements += num_elements(tensor);
      bytes += tensor.size_bytes;
      lines += fmt::format("  {:56} {:9} {}\n", tensor.name, to_string(tensor.dtype), shape_text(tensor));
    }
    text += fmt::format("{}: {} tensors, {} elements, {} bytes\n{}", file.name, file.tensors.size(), elements, bytes,
                        lines);
  }
  return text;
}

std::string to_json(const CheckpointView& view) {
  nlohmann::ordered_json json = {
      {"folder", view.folder.string()},
      {"state", view.state_json.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json::parse(view.state_json)},
      {"models", nlohmann::ordered_json::array()},
      {"files", nlohmann::ordered_json::array()}};
  for (const ModelReport& model : view.models) {
    json["models"].push_back(to_json(model));
  }
  for (const CheckpointView::File& file : view.files) {
    nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
    for (const SafetensorsEntry& tensor : file.tensors) {
      tensors.push_back({{"name", tensor.name},
                         {"dtype", to_string(tensor.dtype)},
                         {"shape", tensor.shape},
                         {"bytes", tensor.size_bytes}});
    }
    json["files"].push_back({{"name", file.name}, {"tensors", tensors}});
  }
  return json.dump(1);
}

}  // namespace memopd

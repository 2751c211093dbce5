#include "policies/model/checkpoint.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "policies/model/host_tensors.hpp"
#include "policies/model/model_config.hpp"
#include "policies/model/safetensors.hpp"
#include "policies/model/weights.hpp"

namespace memopd {

namespace {

using nlohmann::json;

struct Located {
  std::filesystem::path path;
  SafetensorsEntry entry;
};

/// The shards that an index names; the plain file when there is no index.
Expected<std::vector<std::filesystem::path>> weight_files(const std::filesystem::path& folder) {
  const auto single = folder / "model.safetensors";
  const auto index_path = folder / "model.safetensors.index.json";
  std::error_code error;
  if (std::filesystem::exists(single, error) || !std::filesystem::exists(index_path, error)) {
    return std::vector<std::filesystem::path>{single};
  }
  std::ifstream file(index_path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const json index = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    return unexpected(ErrorCode::parse_error, index_path.string() + ": no weight_map");
  }
  std::set<std::string> names;
  for (const auto& [name, shard] : index["weight_map"].items()) {
    // A shard is a file of this folder: an index must not reach elsewhere.
    if (!shard.is_string() || std::filesystem::path(shard.get<std::string>()).filename() != shard.get<std::string>()) {
      return unexpected(ErrorCode::parse_error, index_path.string() + ": weight_map " + name + " names no file here");
    }
    names.insert(shard.get<std::string>());
  }
  std::vector<std::filesystem::path> paths;
  for (const std::string& name : names) paths.push_back(folder / name);
  return paths;
}

Expected<std::vector<Located>> locate_tensors(const std::filesystem::path& folder) {
  const auto paths = weight_files(folder);
  if (!paths) return unexpected(paths.error());
  std::vector<Located> located;
  for (const auto& path : *paths) {
    auto header = read_safetensors_header(path);
    if (!header) return unexpected(header.error());
    for (SafetensorsEntry& entry : header->entries) located.push_back({path, std::move(entry)});
  }
  return located;
}

Expected<void> check_located(const std::filesystem::path& folder, const ModelConfig& config,
                             const std::vector<Located>& located) {
  std::vector<TensorSpec> specs;
  for (const Located& item : located) specs.push_back({item.entry.name, item.entry.shape});
  if (const auto checked = check_tensor_specs(config, specs); !checked) {
    return unexpected(checked.error().code, folder.string() + ": " + checked.error().message);
  }
  return {};
}

Expected<void> write_text(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::path partial = path;
  partial += ".partial";
  {
    std::ofstream file(partial, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (!file) return unexpected(ErrorCode::io_error, partial.string() + ": cannot be written");
  }
  std::error_code error;
  std::filesystem::rename(partial, path, error);
  if (error) return unexpected(ErrorCode::io_error, path.string() + ": " + error.message());
  return {};
}

}  // namespace

Expected<Transformer> load_transformer(const std::filesystem::path& folder, at::ScalarType dtype) {
  const auto config = load_model_config(folder);
  if (!config) return unexpected(config.error());
  const auto located = locate_tensors(folder);
  if (!located) return unexpected(located.error());
  MEMOPD_RETURN_IF_ERROR(check_located(folder, *config, *located));

  WeightSet weights;
  for (const Located& item : *located) {
    auto tensor = read_safetensors_tensor(item.path, item.entry);
    if (!tensor) return unexpected(tensor.error());
    weights.tensors.push_back(std::move(*tensor));
  }
  Transformer model(*config, dtype);
  if (const auto loaded = load_weight_set(model, weights); !loaded) {
    return unexpected(loaded.error().code, folder.string() + ": " + loaded.error().message);
  }
  return model;
}

Expected<void> save_transformer(const std::filesystem::path& folder, const Transformer& model) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return unexpected(ErrorCode::io_error, folder.string() + ": " + error.message());
  const WeightSet weights = to_weight_set(model, 0, 0);
  MEMOPD_RETURN_IF_ERROR(write_safetensors(folder / "model.safetensors", weights.tensors));
  return write_text(folder / "config.json", to_json(model.config()));
}

Expected<at::Tensor> load_head(const std::filesystem::path& folder, at::ScalarType dtype) {
  const auto config = load_model_config(folder);
  if (!config) return unexpected(config.error());
  const auto located = locate_tensors(folder);
  if (!located) return unexpected(located.error());
  MEMOPD_RETURN_IF_ERROR(check_located(folder, *config, *located));
  const std::string name = config->tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  const auto place =
      std::find_if(located->begin(), located->end(), [&name](const Located& item) { return item.entry.name == name; });
  const auto tensor = read_safetensors_tensor(place->path, place->entry);
  if (!tensor) return unexpected(tensor.error());
  at::Tensor head = at::empty({config->vocab_size, config->hidden_size}, dtype);
  copy_from_host(*tensor, head);
  return head;
}

}  // namespace memopd

#include "policies/model/checkpoint.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "policies/model/host_tensors.hpp"
#include "policies/model/mapped_safetensors.hpp"
#include "policies/model/model_config.hpp"
#include "policies/model/safetensors.hpp"
#include "policies/model/tensor_check.hpp"
#include "policies/model/weights.hpp"

namespace memopd {

namespace {

using nlohmann::json;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

struct Located {
  const MappedSafetensors* file = nullptr;
  const SafetensorsEntry* entry = nullptr;

  [[nodiscard]] std::span<const std::byte> bytes() const { return file->bytes(*entry); }
};

/// The weights of a folder, mapped.
struct MappedWeights {
  std::vector<MappedSafetensors> files;
  std::map<std::string, Located> tensors;
};

/// File of every tensor, as an index says.
using WeightMap = std::map<std::string, std::string>;

/// Nothing when the folder has no index, or a model.safetensors, which wins.
Expected<std::optional<WeightMap>> read_index(const std::filesystem::path& folder) {
  const auto index_path = folder / kIndexFile;
  std::error_code error;
  if (std::filesystem::exists(folder / kSingleFile, error) || !std::filesystem::exists(index_path, error)) {
    return std::optional<WeightMap>();
  }
  std::ifstream file(index_path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const json index = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    return unexpected(ErrorCode::parse_error, index_path.string() + ": no weight_map");
  }
  WeightMap map;
  for (const auto& [name, shard] : index["weight_map"].items()) {
    // A shard is a file of this folder: an index must not reach elsewhere.
    if (!shard.is_string() || std::filesystem::path(shard.get<std::string>()).filename() != shard.get<std::string>()) {
      return unexpected(ErrorCode::parse_error, index_path.string() + ": weight_map " + name + " names no file here");
    }
    map[name] = shard.get<std::string>();
  }
  return std::optional(std::move(map));
}

/// Every contradiction between the index and the shards that are there.
std::string index_problems(const WeightMap& map, const MappedWeights& weights, const std::string& unread) {
  std::string problems = unread;
  const auto add = [&problems](const std::string& text) { problems += (problems.empty() ? "" : "; ") + text; };
  for (const auto& [name, shard] : map) {
    const auto place = weights.tensors.find(name);
    if (place != weights.tensors.end() && place->second.file->path().filename() != shard) {
      add(name + " lies in " + place->second.file->path().filename().string() + ", not in " + shard);
    } else if (place == weights.tensors.end() && unread.empty()) {
      add(name + " is not in " + shard);
    }
  }
  for (const auto& [name, located] : weights.tensors) {
    if (!map.contains(name)) add(name + " of " + located.file->path().filename().string() + " is not in the index");
  }
  return problems;
}

Expected<MappedWeights> map_weights(const std::filesystem::path& folder) {
  const auto index = read_index(folder);
  if (!index) return unexpected(index.error());
  std::set<std::string> names = {kSingleFile};
  if (*index) {
    names.clear();
    for (const auto& [name, shard] : **index) names.insert(shard);
  }
  MappedWeights weights;
  std::optional<Error> first;
  std::string unread;
  for (const std::string& name : names) {
    auto file = MappedSafetensors::open(folder / name);
    if (file) {
      weights.files.push_back(std::move(*file));
      continue;
    }
    if (!first) first = file.error();
    unread += (unread.empty() ? "" : "; ") + file.error().message;
  }
  if (first && !*index) return unexpected(*first);
  for (const MappedSafetensors& file : weights.files) {
    for (const SafetensorsEntry& entry : file.header().entries) {
      if (const auto twice = weights.tensors.emplace(entry.name, Located{&file, &entry}); !twice.second) {
        unread += (unread.empty() ? "" : "; ") + entry.name + " is in two shards";
      }
    }
  }
  if (!*index) return weights;
  if (const std::string problems = index_problems(**index, weights, unread); !problems.empty()) {
    return unexpected(first ? first->code : ErrorCode::parse_error, (folder / kIndexFile).string() + ": " + problems);
  }
  return weights;
}

Expected<void> check_mapped(const std::filesystem::path& folder, const ModelConfig& config,
                            const MappedWeights& weights) {
  std::vector<FoundTensor> found;
  for (const auto& [name, located] : weights.tensors) {
    found.push_back({name, located.entry->shape, located.entry->dtype});
  }
  if (const auto checked = check_tensor_specs(config, found); !checked) {
    return unexpected(checked.error().code, folder.string() + ": " + checked.error().message);
  }
  const auto head = weights.tensors.find("lm_head.weight");
  if (!config.tie_word_embeddings || head == weights.tensors.end()) return {};
  const Located& embedding = weights.tensors.at("model.embed_tokens.weight");
  if (!std::ranges::equal(head->second.bytes(), embedding.bytes())) {
    return unexpected(ErrorCode::shape_mismatch,
                      folder.string() +
                          ": weights: lm_head.weight differs from model.embed_tokens.weight, but "
                          "tie_word_embeddings is true");
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

/// Tensors in name order, cut where a shard would exceed `max_shard_bytes`.
std::vector<std::vector<SafetensorsEntry>> split_shards(const std::vector<NamedTensor>& slices,
                                                        std::uint64_t max_shard_bytes) {
  std::vector<std::vector<SafetensorsEntry>> shards;
  std::uint64_t bytes = 0;
  for (const NamedTensor& slice : slices) {
    const std::uint64_t size = slice.tensor.nbytes();
    if (shards.empty() || bytes + size > max_shard_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += size;
    const auto sizes = slice.tensor.sizes();
    shards.back().push_back({.name = slice.name,
                             .dtype = to_dtype(slice.tensor.scalar_type()),
                             .shape = {sizes.begin(), sizes.end()},
                             .size_bytes = size});
  }
  return shards;
}

std::string shard_name(std::size_t number, std::size_t count) {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "model-%05zu-of-%05zu.safetensors", number + 1, count);
  return name.data();
}

/// Removes what `folder` held before as weights, except the files in `kept`.
Expected<void> remove_other_weights(const std::filesystem::path& folder, const std::set<std::string>& kept) {
  std::error_code error;
  std::vector<std::filesystem::path> stale;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const bool is_shard = name.starts_with("model-") && name.ends_with(".safetensors");
    if ((is_shard || name == kSingleFile || name == kIndexFile) && !kept.contains(name)) stale.push_back(entry.path());
  }
  for (const auto& path : stale) {
    std::filesystem::remove(path, error);
    if (error) return unexpected(ErrorCode::io_error, path.string() + ": " + error.message());
  }
  return {};
}

Expected<void> save_weights(const std::filesystem::path& folder, const Transformer& model,
                            std::uint64_t max_shard_bytes) {
  const auto slices = model.named_slices();
  std::map<std::string_view, at::Tensor> by_name;
  std::uint64_t total_bytes = 0;
  for (const NamedTensor& slice : slices) {
    by_name[slice.name] = slice.tensor;
    total_bytes += slice.tensor.nbytes();
  }
  at::Tensor whole;  // keeps the bytes that the writer reads
  const SafetensorsSource source = [&](const SafetensorsEntry& entry) {
    whole = by_name.at(entry.name).contiguous();
    return std::span(static_cast<const std::byte*>(whole.const_data_ptr()), whole.nbytes());
  };
  auto shards = split_shards(slices, max_shard_bytes);
  if (shards.size() == 1) {
    MEMOPD_RETURN_IF_ERROR(write_safetensors(folder / kSingleFile, std::move(shards.front()), source));
    return remove_other_weights(folder, {kSingleFile});
  }
  json weight_map = json::object();
  std::set<std::string> kept = {kIndexFile};
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(i, shards.size());
    for (const SafetensorsEntry& entry : shards[i]) weight_map[entry.name] = name;
    kept.insert(name);
    MEMOPD_RETURN_IF_ERROR(write_safetensors(folder / name, std::move(shards[i]), source));
  }
  const json index = {{"metadata", {{"total_size", total_bytes}}}, {"weight_map", weight_map}};
  MEMOPD_RETURN_IF_ERROR(write_text(folder / kIndexFile, index.dump(2) + "\n"));
  return remove_other_weights(folder, kept);
}

}  // namespace

Expected<Transformer> load_transformer(const std::filesystem::path& folder, at::ScalarType dtype) {
  const auto config = load_model_config(folder);
  if (!config) return unexpected(config.error());
  const auto weights = map_weights(folder);
  if (!weights) return unexpected(weights.error());
  MEMOPD_RETURN_IF_ERROR(check_mapped(folder, *config, *weights));

  const at::NoGradGuard no_grad;
  Transformer model(*config, dtype);
  for (const NamedTensor& slice : model.named_slices()) {
    const Located& source = weights->tensors.at(slice.name);
    copy_from_bytes(source.bytes(), source.entry->dtype, slice.tensor);
    source.file->release(*source.entry);
  }
  return model;
}

Expected<void> save_transformer(const std::filesystem::path& folder, const Transformer& model,
                                std::uint64_t max_shard_bytes) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return unexpected(ErrorCode::io_error, folder.string() + ": " + error.message());
  MEMOPD_RETURN_IF_ERROR(save_weights(folder, model, max_shard_bytes));
  if (!std::filesystem::exists(folder / "generation_config.json", error) && !model.config().eos_token_ids.empty()) {
    const json generation = {{"eos_token_id", model.config().eos_token_ids}};
    MEMOPD_RETURN_IF_ERROR(write_text(folder / "generation_config.json", generation.dump(2) + "\n"));
  }
  return write_text(folder / "config.json", to_json(model.config(), to_dtype(model.dtype())));
}

Expected<void> copy_companion_files(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code created;
  std::filesystem::create_directories(to, created);
  if (created) return unexpected(ErrorCode::io_error, to.string() + ": " + created.message());
  for (const char* name : {"generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
                           "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt"}) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(from / name, error) || std::filesystem::exists(to / name, error)) continue;
    std::filesystem::copy_file(from / name, to / name, error);
    if (error) return unexpected(ErrorCode::io_error, (to / name).string() + ": " + error.message());
  }
  return {};
}

Expected<at::Tensor> load_head(const std::filesystem::path& folder, at::ScalarType dtype) {
  const auto config = load_model_config(folder);
  if (!config) return unexpected(config.error());
  const auto weights = map_weights(folder);
  if (!weights) return unexpected(weights.error());
  MEMOPD_RETURN_IF_ERROR(check_mapped(folder, *config, *weights));
  const Located& source =
      weights->tensors.at(config->tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight");
  at::Tensor head = at::empty({config->vocab_size, config->hidden_size}, dtype);
  copy_from_bytes(source.bytes(), source.entry->dtype, head);
  return head;
}

}  // namespace memopd

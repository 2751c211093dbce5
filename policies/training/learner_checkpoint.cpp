// A learner's checkpoint: `policy/` and `critic/` as Hugging Face folders, optimizer.safetensors, and state.json, which has
// the counters and the hashes of all other files.
#include <ATen/ops/empty.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>

#include "policies/model/checkpoint.hpp"
#include "policies/model/safetensors.hpp"
#include "policies/training/file_hashes.hpp"
#include "policies/training/learner_impl.hpp"

namespace memopd {
namespace {

namespace fs = std::filesystem;
constexpr int kFormatVersion = 2;

HostTensor to_host(const std::string& name, const at::Tensor& flat) {
  HostTensor host{name, flat.scalar_type() == at::kDouble ? DType::float64 : DType::float32, {flat.numel()}, {}};
  host.bytes.resize(static_cast<std::size_t>(flat.numel()) * size_bytes(host.dtype));
  std::memcpy(host.bytes.data(), flat.const_data_ptr(), host.bytes.size());
  return host;
}

at::Tensor from_host(const HostTensor& host) {
  const auto count = static_cast<std::int64_t>(host.bytes.size() / size_bytes(host.dtype));
  at::Tensor flat = at::empty({count}, host.dtype == DType::float64 ? at::kDouble : at::kFloat);
  std::memcpy(flat.mutable_data_ptr(), host.bytes.data(), host.bytes.size());
  return flat;
}

void append_moments(const std::string& prefix, const AdamW& optimizer, std::vector<HostTensor>& tensors) {
  tensors.push_back(to_host(prefix + ".exp_avg", optimizer.moment()));
  tensors.push_back(to_host(prefix + ".exp_avg_sq", optimizer.second_moment()));
}

Expected<void> restore_moments(const std::string& prefix, const std::map<std::string, at::Tensor>& tensors,
                               std::int64_t num_updates, AdamW& optimizer) {
  const auto moment = tensors.find(prefix + ".exp_avg");
  const auto second = tensors.find(prefix + ".exp_avg_sq");
  if (moment == tensors.end() || second == tensors.end()) {
    return unexpected(ErrorCode::parse_error, "optimizer.safetensors: no moments of " + prefix);
  }
  return optimizer.restore(moment->second, second->second, num_updates);
}

Expected<std::map<std::string, at::Tensor>> read_moments(const fs::path& path) {
  Expected<std::vector<HostTensor>> tensors = read_safetensors(path);
  if (!tensors) {
    return unexpected(tensors.error());
  }
  std::map<std::string, at::Tensor> by_name;
  for (const HostTensor& tensor : *tensors) {
    if (tensor.dtype != DType::float32 && tensor.dtype != DType::float64) {
      return unexpected(ErrorCode::parse_error, path.string() + ": " + tensor.name + " is " +
                                                    std::string(to_string(tensor.dtype)) + ", not float32 or float64");
    }
    by_name.emplace(tensor.name, from_host(tensor));
  }
  return by_name;
}

Expected<nlohmann::json> read_state(const fs::path& path) {
  std::ifstream file(path);
  if (!file) {
    return unexpected(ErrorCode::not_found, path.string() + ": no such file, a checkpoint has one");
  }
  nlohmann::json state = nlohmann::json::parse(file, nullptr, false);
  for (const char* const key : {"format_version", "lineage", "policy_version", "schedule_step", "skipped_in_a_row",
                                "policy_updates", "critic_updates"}) {
    if (!state.is_object() || !state.contains(key) || !state[key].is_number_integer() || state[key] < 0) {
      return unexpected(ErrorCode::parse_error, path.string() + ": no integer \"" + key + "\" from 0 on");
    }
  }
  if (state["format_version"] != kFormatVersion) {
    return unexpected(ErrorCode::parse_error, path.string() + ": format_version " + state["format_version"].dump() +
                                                  ", this build reads " + std::to_string(kFormatVersion));
  }
  MEMOPD_RETURN_IF_ERROR(check_files(path.parent_path(), state.value("files", FileHashes())));
  return state;
}

void copy_values(const std::vector<NamedTensor>& from, const std::vector<NamedTensor>& to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    std::memcpy(to[i].tensor.data_ptr(), from[i].tensor.const_data_ptr(), to[i].tensor.nbytes());
  }
}

Expected<void> write_state(const fs::path& path, const nlohmann::json& state) {
  std::ofstream file(path);
  file << state.dump(2) << '\n';
  file.flush();
  if (!file) {
    return unexpected(ErrorCode::io_error, path.string() + ": cannot write");
  }
  return {};
}

}  // namespace

Expected<void> LearnerImpl::save_checkpoint(const fs::path& folder, const std::string& run_state) const try {
  if (fs::exists(folder)) {
    return unexpected(ErrorCode::already_exists, folder.string() + ": a checkpoint is never overwritten");
  }
  fs::path unfinished = folder;
  unfinished += ".unfinished";
  fs::remove_all(unfinished);
  fs::create_directories(unfinished / "policy");
  MEMOPD_RETURN_IF_ERROR(copy_companion_files(setup_.student_folder, unfinished / "policy"));
  MEMOPD_RETURN_IF_ERROR(save_transformer(unfinished / "policy", models_.student));
  std::vector<HostTensor> tensors;
  append_moments("policy", policy_optimizer_, tensors);
  if (models_.critic) {
    MEMOPD_RETURN_IF_ERROR(models_.critic->save(unfinished / "critic"));
    append_moments("critic", *critic_optimizer_, tensors);
  }
  MEMOPD_RETURN_IF_ERROR(write_safetensors(unfinished / "optimizer.safetensors", tensors));
  const Expected<FileHashes> hashes = hash_files(unfinished);
  if (!hashes) {
    return unexpected(hashes.error());
  }
  MEMOPD_RETURN_IF_ERROR(write_state(unfinished / "state.json",
                                     {{"format_version", kFormatVersion},
                                      {"files", *hashes},
                                      {"lineage", lineage_},
                                      {"policy_version", policy_version_},
                                      {"schedule_step", schedule_step_},
                                      {"skipped_in_a_row", skipped_in_a_row_},
                                      {"run", nlohmann::json::parse(run_state)},
                                      {"policy_updates", policy_optimizer_.num_updates()},
                                      {"critic_updates", critic_optimizer_ ? critic_optimizer_->num_updates() : 0}}));
  fs::rename(unfinished, folder);
  return {};
} catch (const std::exception& exception) {
  return unexpected(ErrorCode::io_error, folder.string() + ": " + exception.what());
}

Expected<void> LearnerImpl::load_checkpoint(const fs::path& folder) try {
  Expected<nlohmann::json> state = read_state(folder / "state.json");
  if (!state) {
    return unexpected(state.error());
  }
  Expected<std::map<std::string, at::Tensor>> moments = read_moments(folder / "optimizer.safetensors");
  if (!moments) {
    return unexpected(moments.error());
  }
  Expected<Transformer> policy = load_transformer(folder / "policy", models_.student.dtype());
  if (!policy) {
    return unexpected(policy.error());
  }
  if (!(policy->config() == models_.student.config())) {
    return unexpected(ErrorCode::shape_mismatch, (folder / "policy").string() + ": another shape than the student's");
  }
  // Everything is read into copies first: an error below this line would leave a learner of two halves.
  AdamW policy_optimizer = policy_optimizer_;
  MEMOPD_RETURN_IF_ERROR(restore_moments("policy", *moments, (*state)["policy_updates"], policy_optimizer));
  if (models_.critic) {
    AdamW critic_optimizer = *critic_optimizer_;
    MEMOPD_RETURN_IF_ERROR(restore_moments("critic", *moments, (*state)["critic_updates"], critic_optimizer));
    MEMOPD_RETURN_IF_ERROR(models_.critic->load(folder / "critic"));
    *critic_optimizer_ = std::move(critic_optimizer);
  }
  policy_optimizer_ = std::move(policy_optimizer);
  copy_values(policy->parameters(), models_.student.parameters());
  lineage_ = (*state)["lineage"];
  policy_version_ = (*state)["policy_version"];
  schedule_step_ = (*state)["schedule_step"];
  skipped_in_a_row_ = (*state)["skipped_in_a_row"];
  return {};
} catch (const std::exception& exception) {
  return unexpected(ErrorCode::parse_error, folder.string() + ": " + exception.what());
}

}  // namespace memopd

#include "policies/model/weights.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "policies/model/checkpoint.hpp"
#include "policies/model/host_tensors.hpp"
#include "policies/model/mapped_safetensors.hpp"
#include "policies/model/transformer.hpp"

namespace memopd {

namespace {

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

/// XXH3-64 of what is added; 0, which means "none" elsewhere, becomes 1.
class Fingerprint {
 public:
  Fingerprint() : state_(XXH3_createState()) { XXH3_64bits_reset(state_.get()); }
  void add(const void* bytes, std::size_t size) { XXH3_64bits_update(state_.get(), bytes, size); }
  void add(std::uint64_t number) { add(&number, sizeof(number)); }
  void add_tensor(const std::string& name, DType dtype, const std::vector<std::int64_t>& shape,
                  std::span<const std::byte> bytes) {
    add(name.size());
    add(name.data(), name.size());
    add(static_cast<std::uint64_t>(dtype));
    add(shape.size());
    for (const std::int64_t extent : shape) add(static_cast<std::uint64_t>(extent));
    add(bytes.data(), bytes.size());
  }
  [[nodiscard]] std::uint64_t value() const {
    const std::uint64_t hash = XXH3_64bits_digest(state_.get());
    return hash == 0 ? 1 : hash;
  }

 private:
  std::unique_ptr<XXH3_state_t, FreeState> state_;
};

}  // namespace

WeightSet to_weight_set(const Transformer& model, std::int64_t lineage, std::int64_t policy_version) {
  WeightSet weights{.lineage = lineage, .policy_version = policy_version, .tensors = {}};
  for (const NamedTensor& slice : model.named_slices())
    weights.tensors.push_back(to_host_tensor(slice.name, slice.tensor));
  return weights;
}

Expected<void> load_weight_set(Transformer& model, const WeightSet& weights) {
  std::vector<const HostTensor*> found;
  for (const HostTensor& tensor : weights.tensors) found.push_back(&tensor);
  MEMOPD_RETURN_IF_ERROR(check_tensors(model.config(), found));
  std::map<std::string_view, const HostTensor*> by_name;
  for (const HostTensor* tensor : found) by_name[tensor->name] = tensor;
  const at::NoGradGuard no_grad;
  for (const NamedTensor& slice : model.named_slices()) copy_from_host(*by_name.at(slice.name), slice.tensor);
  return {};
}

std::uint64_t weight_fingerprint(const WeightSet& weights) {
  Fingerprint fingerprint;
  for (const HostTensor& tensor : weights.tensors) {
    fingerprint.add_tensor(tensor.name, tensor.dtype, tensor.shape, tensor.bytes);
  }
  return fingerprint.value();
}

Expected<std::uint64_t> stored_weight_fingerprint(std::span<const std::filesystem::path> files) {
  std::vector<MappedSafetensors> mapped;
  for (const std::filesystem::path& path : files) {
    auto file = MappedSafetensors::open(path);
    if (!file) return unexpected(file.error());
    mapped.push_back(std::move(*file));
  }
  std::map<std::string_view, std::pair<const MappedSafetensors*, const SafetensorsEntry*>> by_name;
  for (const MappedSafetensors& file : mapped) {
    for (const SafetensorsEntry& entry : file.header().entries) by_name[entry.name] = {&file, &entry};
  }
  Fingerprint fingerprint;
  for (const auto& [name, place] : by_name) {
    const auto& [file, entry] = place;
    fingerprint.add_tensor(entry->name, entry->dtype, entry->shape, file->bytes(*entry));
    file->release(*entry);
  }
  return fingerprint.value();
}

std::uint64_t head_fingerprint(const Transformer& model, std::int32_t scored_vocab) {
  return head_fingerprint(model.head_weight(), scored_vocab);
}

std::uint64_t head_fingerprint(const at::Tensor& head_weight, std::int32_t scored_vocab) {
  const at::Tensor rows = head_weight.detach().narrow(0, 0, scored_vocab).to(at::kFloat).contiguous();
  Fingerprint fingerprint;
  fingerprint.add(static_cast<std::uint64_t>(rows.size(0)));
  fingerprint.add(static_cast<std::uint64_t>(rows.size(1)));
  fingerprint.add(rows.data_ptr<float>(), static_cast<std::size_t>(rows.numel()) * sizeof(float));
  return fingerprint.value();
}

}  // namespace memopd

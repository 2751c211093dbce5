#include "policies/model/critic.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <system_error>
#include <utility>

#include "policies/model/checkpoint.hpp"
#include "policies/model/host_tensors.hpp"
#include "policies/model/packed_tensors.hpp"
#include "policies/model/row_products.hpp"
#include "policies/model/safetensors.hpp"
#include "policies/model/weights.hpp"
#include "runtime/base/random.hpp"

namespace memopd {

namespace {

constexpr const char* kHeadFile = "value_head.safetensors";

at::Tensor random_square(std::int64_t size, std::uint64_t seed, at::ScalarType dtype) {
  SplitMix random(seed);
  at::Tensor values = at::empty({size, size}, at::kDouble);
  auto* value = values.data_ptr<double>();
  const double std = 1.0 / std::sqrt(static_cast<double>(size));
  for (std::int64_t i = 0; i < values.numel(); ++i) value[i] = std * random.normal();
  return values.to(dtype);
}

}  // namespace

Expected<Critic> Critic::create(const CriticOptions& options, at::ScalarType dtype) {
  Critic critic;
  std::int64_t size = options.feature_size;
  if (options.trunk == "own") {
    auto trunk = load_transformer(options.model_folder, dtype);
    if (!trunk) return unexpected(trunk.error());
    size = trunk->config().hidden_size;
    critic.trunk_.emplace(std::move(*trunk));
    critic.trunk_->set_requires_grad(true);
    critic.parameters_ = critic.trunk_->parameters();
  } else if (options.trunk != "shared") {
    return unexpected(ErrorCode::invalid_argument,
                      "critic: trunk is \"" + options.trunk + "\", not \"shared\" or \"own\"");
  }
  if (size < 1)
    return unexpected(ErrorCode::invalid_argument, "critic: feature_size is " + std::to_string(size) + ", below 1");

  critic.hidden_weight_ = random_square(size, chain_seed(options.seed, {hash_name("value_head.hidden.weight")}), dtype);
  critic.hidden_bias_ = at::zeros({size}, dtype);
  critic.output_weight_ = at::zeros({1, size}, dtype);
  critic.output_bias_ = at::zeros({1}, dtype);
  critic.num_trunk_parameters_ = critic.parameters_.size();
  critic.parameters_.push_back({"value_head.hidden.weight", critic.hidden_weight_});
  critic.parameters_.push_back({"value_head.hidden.bias", critic.hidden_bias_});
  critic.parameters_.push_back({"value_head.output.weight", critic.output_weight_});
  critic.parameters_.push_back({"value_head.output.bias", critic.output_bias_});
  for (NamedTensor& parameter : critic.parameters_) parameter.tensor.set_requires_grad(true);
  return critic;
}

at::Tensor Critic::values(const PackedTensors& pack, const at::Tensor& student_rows) const {
  const at::Tensor features_RD =
      trunk_ ? trunk_->hidden(pack).index_select(0, pack.response_index) : student_rows.detach();
  if (!is_row_exact_) {
    const at::Tensor active_RD = at::addmm(hidden_bias_, features_RD, hidden_weight_.t()).tanh();
    return at::addmm(output_bias_, active_RD, output_weight_.t()).squeeze(1);
  }
  // Whole tiles: the tensor library takes tanh in vectors and what is left over one by one, by another formula.
  const std::int64_t num_rows = features_RD.size(0);
  const at::Tensor padded = at::constant_pad_nd(features_RD, {0, 0, 0, (kTileRows - num_rows % kTileRows) % kTileRows});
  const at::Tensor active = at::add(multiply_rows(padded, hidden_weight_, true), hidden_bias_).tanh();
  return at::add(multiply_rows(active, output_weight_, true), output_bias_).squeeze(1).narrow(0, 0, num_rows);
}

void Critic::set_row_exact(bool is_row_exact) {
  is_row_exact_ = is_row_exact;
  if (trunk_) trunk_->set_row_exact(is_row_exact);
}

Expected<void> Critic::save(const std::filesystem::path& folder) const {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return unexpected(ErrorCode::io_error, folder.string() + ": " + error.message());
  if (trunk_) MEMOPD_RETURN_IF_ERROR(save_transformer(folder, *trunk_));
  std::vector<HostTensor> head;
  for (std::size_t i = num_trunk_parameters_; i < parameters_.size(); ++i) {
    head.push_back(to_host_tensor(parameters_[i].name, parameters_[i].tensor));
  }
  return write_safetensors(folder / kHeadFile, head);
}

Expected<void> Critic::load(const std::filesystem::path& folder) {
  const auto head = read_safetensors(folder / kHeadFile);
  if (!head) return unexpected(head.error());
  std::vector<const HostTensor*> sources;
  for (std::size_t i = num_trunk_parameters_; i < parameters_.size(); ++i) {
    const auto& [name, tensor] = parameters_[i];
    const HostTensor* source = nullptr;
    for (const HostTensor& candidate : *head) {
      if (candidate.name == name && tensor.sizes() == at::IntArrayRef(candidate.shape)) source = &candidate;
    }
    if (source == nullptr) {
      return unexpected(ErrorCode::shape_mismatch,
                        (folder / kHeadFile).string() + ": no " + name + " of this critic's shape");
    }
    sources.push_back(source);
  }
  if (trunk_) {
    const auto loaded = load_transformer(folder, trunk_->dtype());
    if (!loaded) return unexpected(loaded.error());
    MEMOPD_RETURN_IF_ERROR(load_weight_set(*trunk_, to_weight_set(*loaded, 0, 0)));
  }
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    copy_from_host(*sources[i], parameters_[num_trunk_parameters_ + i].tensor);
  }
  return {};
}

}  // namespace memopd

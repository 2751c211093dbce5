// The value model: one number per response row, the return expected from there.
//
// trunk "shared": an MLP D -> D -> 1 (tanh) on the student's features, detached: the value loss never moves the student.
// trunk "own":    a decoder of its own, then the same MLP.
// The output layer starts at zero, so every value starts at zero.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "policies/model/transformer.hpp"
#include "runtime/base/expected.hpp"

namespace memopd {

struct CriticOptions {
  std::string trunk = "shared";          ///< "shared" | "own"
  std::filesystem::path model_folder{};  ///< trunk "own": where its decoder starts; required there
  std::int32_t feature_size = 0;         ///< trunk "shared": the student's hidden_size
  std::uint64_t seed = 0;                ///< of the MLP's first layer
};

/// As Transformer: `values` may run on several threads at a time, writing parameters needs exclusive access.
class Critic {
 public:
  /// @error invalid_argument  another trunk, feature_size < 1
  /// @error those of load_transformer for trunk "own"
  static Expected<Critic> create(const CriticOptions& options, at::ScalarType dtype = at::kFloat);

  /// [R] values of the pack's response rows.
  /// @param student_rows  [R, D] the student's hidden states at response_index; read (detached) by trunk "shared" only
  [[nodiscard]] at::Tensor values(const PackedTensors& pack, const at::Tensor& student_rows) const;

  /// As Transformer::set_row_exact, for the values of trunk and MLP.
  void set_row_exact(bool is_row_exact);

  /// Leaf tensors in a fixed order: the decoder's (trunk "own"), then the MLP's. Gradients are recorded.
  [[nodiscard]] const std::vector<NamedTensor>& parameters() const { return parameters_; }
  [[nodiscard]] bool has_own_trunk() const { return trunk_.has_value(); }

  /// value_head.safetensors, and the decoder's Hugging Face folder for trunk "own".
  Expected<void> save(const std::filesystem::path& folder) const;
  /// Replaces the values of all parameters. @error shape_mismatch, not_found, those of read_safetensors
  Expected<void> load(const std::filesystem::path& folder);

 private:
  Critic() = default;

  std::optional<Transformer> trunk_;
  bool is_row_exact_ = false;
  std::size_t num_trunk_parameters_ = 0;
  std::vector<NamedTensor> parameters_;
  at::Tensor hidden_weight_;  ///< [D, D]
  at::Tensor hidden_bias_;    ///< [D]
  at::Tensor output_weight_;  ///< [1, D]
  at::Tensor output_bias_;    ///< [1]
};

}  // namespace memopd

// The decoder: packed tokens in, hidden states after the final norm out.
//
// Shapes  T tokens of a pack, D hidden_size, V vocab_size, R rows asked for.
// Parameters are leaf tensors, fused where one product replaces several: qkv_proj = q, k, v stacked by rows;
// gate_up_proj = gate, up. Hugging Face names exist in checkpoints, WeightSets and `named_slices` only.
//
// `hidden` and `logits` are const and share nothing mutable: several threads may run them on one Transformer, each with
// its own autograd graph (torch::autograd::grad). Writing parameters needs exclusive access.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "policies/model/model_config.hpp"

namespace memopd {

struct PackedTensors;

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// Parameters of one decoder layer.
struct DecoderLayer {
  at::Tensor input_norm;      ///< [D]
  at::Tensor qkv_weight;      ///< [(H + 2 Hkv) Dh, D]
  at::Tensor qkv_bias;        ///< [(H + 2 Hkv) Dh]; undefined without attention_bias
  at::Tensor q_norm;          ///< [Dh]; undefined unless has_qk_norm
  at::Tensor k_norm;          ///< [Dh]; likewise
  at::Tensor o_weight;        ///< [D, H Dh]
  at::Tensor post_norm;       ///< [D]
  at::Tensor gate_up_weight;  ///< [2 F, D]
  at::Tensor down_weight;     ///< [D, F]
};

/// Movable, not copyable: two copies would share storage. `clone` makes an independent one.
class Transformer {
 public:
  /// All parameters zero, norms one. `config` has passed `validate`. dtype: at::kFloat or at::kDouble.
  Transformer(ModelConfig config, at::ScalarType dtype);
  Transformer(Transformer&&) noexcept = default;
  Transformer& operator=(Transformer&&) noexcept = default;
  Transformer(const Transformer&) = delete;
  Transformer& operator=(const Transformer&) = delete;

  [[nodiscard]] Transformer clone() const;  ///< same values and setting, own storage, no gradient history

  /// RL-7: from now on a row of `hidden` and of `logits` has the same bits whatever else is in the pack, on every call
  /// with the same number of operation threads. Off after construction; gradients are computed as ever.
  void set_row_exact(bool is_row_exact) { is_row_exact_ = is_row_exact; }
  [[nodiscard]] bool is_row_exact() const { return is_row_exact_; }

  /// [T, D]. `pack` is valid (align_pack's, or checked by validate) and its ids lie in the vocabulary.
  [[nodiscard]] at::Tensor hidden(const PackedTensors& pack) const;
  /// [V, D]: the embedding when tied.
  [[nodiscard]] const at::Tensor& head_weight() const;
  /// [R, V] of `hidden_rows` [R, D].
  [[nodiscard]] at::Tensor logits(const at::Tensor& hidden_rows) const;

  /// Leaf tensors in a fixed order; a tied head is not repeated. Names are those of the fused tensors.
  [[nodiscard]] const std::vector<NamedTensor>& parameters() const { return parameters_; }
  /// Whether gradients are recorded; off after construction.
  void set_requires_grad(bool is_required);

  /// Hugging Face names, sorted, with views into `like_parameters` (parameters, their gradients or moments: same order
  /// and shapes as `parameters()`; undefined tensors are left out).
  [[nodiscard]] std::vector<NamedTensor> named_slices(const std::vector<at::Tensor>& like_parameters) const;
  [[nodiscard]] std::vector<NamedTensor> named_slices() const;  ///< of the parameters themselves, detached

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] at::ScalarType dtype() const { return dtype_; }
  [[nodiscard]] const at::Tensor& embedding() const { return embedding_; }
  [[nodiscard]] const std::vector<DecoderLayer>& layers() const { return layers_; }
  [[nodiscard]] const at::Tensor& final_norm() const { return final_norm_; }
  /// cos and sin of every pair at `position_ids` [T] (int64): [T, Dh] = cos [Dh/2] ++ sin [Dh/2].
  [[nodiscard]] at::Tensor rope_rows(const at::Tensor& position_ids) const;

 private:
  ModelConfig config_;
  at::ScalarType dtype_;
  bool is_row_exact_ = false;
  at::Tensor embedding_;   ///< [V, D]
  at::Tensor final_norm_;  ///< [D]
  at::Tensor head_;        ///< [V, D]; undefined when tied
  std::vector<DecoderLayer> layers_;
  std::vector<NamedTensor> parameters_;
};

}  // namespace memopd

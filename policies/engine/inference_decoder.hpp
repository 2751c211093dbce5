// The decoder without gradients, over key/value slots: whole prompts at once, or one token of many sequences.
//
// Shapes  N rows of a call, V scored vocabulary.
// Works in buffers taken at construction; the logits handed out are one of them and live until the next call.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "policies/engine/kv_cache.hpp"
#include "policies/model/transformer.hpp"

namespace memopd {

/// A prompt to be read into an empty slot.
struct PrefillRow {
  std::int32_t slot = 0;
  std::span<const std::int32_t> token_ids;  ///< [P], P >= 1
};

/// One token to be read behind the `position` tokens that a slot holds.
struct DecodeRow {
  std::int32_t slot = 0;
  std::int32_t token_id = 0;
  std::int32_t position = 0;
};

struct InferenceLimits {
  std::int32_t max_sequences = 0;
  std::int32_t max_rows = 0;  ///< tokens of one call
  std::int32_t max_context_tokens = 0;
  std::int32_t scored_vocab = 0;
};

/// Runs any model of one shape: a slot belongs to the model that filled it. Not thread-safe; uses at::parallel_for.
///
/// With a row-exact model (RL-7) the logits of a row have the same bits alone and among others, in any slot, and whether
/// its tokens were read as a prompt or one by one.
class InferenceDecoder {
 public:
  /// @param like  float32; its shape is that of every model given later
  InferenceDecoder(const Transformer& like, const InferenceLimits& limits);

  /// [N, V]: what follows each prompt's last token. At most max_sequences prompts, max_rows tokens.
  std::span<const float> prefill(const Transformer& model, std::span<const PrefillRow> prompts);
  /// [N, V]: what follows each token. At most max_sequences rows.
  std::span<const float> decode(const Transformer& model, std::span<const DecodeRow> rows);

  [[nodiscard]] KvCache& cache() { return cache_; }

 private:
  struct Buffers {
    at::Tensor ids, positions;                                   // int64 [rows]
    at::Tensor x, normed, qkv, attended, gate_up, active, rope;  // float32 [rows, ..]
    at::Tensor product;                                          // [rows, D], row-exact models only
    at::Tensor logits;                                           // [max_sequences, V]
    at::Tensor scores;                                           // [max_sequences, max_context_tokens, padded]
  };

  /// The rows whose ids and positions stand in the buffers. `attend(layer, qkv, attended)` fills attended [N, H Dh];
  /// after the last layer's attention only `wanted_rows` go on, when defined.
  template <class Attend>
  std::span<const float> forward(const Transformer& model, std::int64_t num_rows, const at::Tensor& wanted_rows,
                                 Attend attend);
  /// x += rows weight^T
  void add_product(const at::Tensor& x, const at::Tensor& rows, const at::Tensor& weight, bool is_row_exact);
  [[nodiscard]] CachedToken token_of(std::int64_t row) const;
  void attend_decoded(std::int64_t layer, std::span<const DecodeRow> rows, const at::Tensor& qkv,
                      const at::Tensor& attended);

  ModelConfig config_;
  InferenceLimits limits_;
  KvCache cache_;
  Buffers buffers_;
  at::Tensor rope_table_;  // [max_context_tokens, Dh]
};

}  // namespace memopd

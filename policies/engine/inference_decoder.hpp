// The decoder without gradients, over key/value slots: prompts or parts of them, or one token of many sequences.
//
// Shapes  N rows of a call, V scored vocabulary.
// Works in buffers taken at construction; the logits handed out are one of them and live until the next call.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policies/engine/kv_cache.hpp"
#include "policies/model/packed_tensors.hpp"
#include "policies/model/transformer.hpp"

namespace memopd {

/// Tokens to be read into a slot behind the `position` tokens that it holds.
struct PrefillRow {
  std::int32_t slot = 0;
  std::span<const std::int32_t> token_ids;  ///< not empty
  std::int32_t position = 0;
  bool is_last = true;  ///< what follows them is wanted
};

/// One token to be read behind the `position` tokens that a slot holds.
struct DecodeRow {
  std::int32_t slot = 0;
  std::int32_t token_id = 0;
  std::int32_t position = 0;
};

struct InferenceLimits {
  std::int32_t max_sequences = 0;  ///< rows of logits of one call
  std::int32_t num_slots = 0;
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

  /// [N, V]: what follows the last token of each that is_last. At most max_sequences, of different slots; max_rows tokens.
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
    at::Tensor scores;                                           // [threads, max_context_tokens, padded]
  };

  /// Rows of a call that begin their sequences: they see each other only, as `pack` says. Without one: rows that see
  /// what their slots hold up to themselves.
  struct Run {
    std::int64_t begin = 0, end = 0;
    std::optional<PackedTensors> pack{};
  };

  void set_row(std::int64_t row, std::int32_t slot, std::int32_t id, std::int32_t position);
  /// The rows that were set, in runs. After the last layer's attention only `wanted_rows` go on, when defined.
  std::span<const float> forward(const Transformer& model, std::span<const Run> runs, const at::Tensor& wanted_rows);
  /// attended [N, H Dh] from qkv [N, Q], whose keys and values go into the slots.
  void attend(std::int64_t layer, std::span<const Run> runs, const at::Tensor& qkv, const at::Tensor& attended);
  void attend_slots(std::int64_t layer, const Run& run, const at::Tensor& qkv, const at::Tensor& attended);
  /// x += rows weight^T
  void add_product(const at::Tensor& x, const at::Tensor& rows, const at::Tensor& weight, bool is_row_exact);
  [[nodiscard]] CachedToken token_of(std::int64_t row) const;

  ModelConfig config_;
  InferenceLimits limits_;
  KvCache cache_;
  Buffers buffers_;
  std::vector<std::int32_t> slots_;  // of each row
  at::Tensor rope_table_;            // [max_context_tokens, Dh]
};

}  // namespace memopd

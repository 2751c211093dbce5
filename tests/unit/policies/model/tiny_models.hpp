// Small random models and packs for the tests of policies/model and policies/engine.
#pragma once

#include <string>
#include <vector>

#include "policies/model/initialization.hpp"
#include "policies/model/packed_tensors.hpp"
#include "policies/model/state_digest.hpp"
#include "policies/model/transformer.hpp"
#include "runtime/alignpack/align_pack.hpp"
#include "runtime/data/invocation.hpp"
#include "tests/unit/policies/model/file_bytes.hpp"
#include "tests/unit/runtime/alignpack/random_trajectories.hpp"

namespace memopd::testing {

inline ModelConfig tiny_config(const std::string& architecture = "qwen2", bool is_tied = true) {
  return {.architecture = architecture,
          .vocab_size = 24,
          .hidden_size = 16,
          .intermediate_size = 24,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 4,
          .attention_bias = architecture == "qwen2",
          .tie_word_embeddings = is_tied,
          .max_position_embeddings = 64,
          .eos_token_ids = {}};
}

/// Wide enough that the tensor library's product of a row with a weight does depend on how many rows there are.
inline ModelConfig wide_config(const std::string& architecture = "qwen2") {
  ModelConfig config = tiny_config(architecture);
  config.vocab_size = 512;
  config.hidden_size = 96;
  config.intermediate_size = 240;
  config.head_dim = 24;
  config.max_position_embeddings = 256;
  return config;
}

/// Embedding 0.3 and final norm 1.0: logits of a few units that follow the context, neither flat nor an echo.
inline Transformer tiny_model(const ModelConfig& config = tiny_config(), std::uint64_t seed = 3,
                              at::ScalarType dtype = at::kFloat) {
  Transformer model =
      *random_transformer(config, {.seed = seed, .embedding_std = 0.3, .final_norm_weight = 1.0}, dtype);
  for (const DecoderLayer& layer : model.layers()) {
    if (!config.has_qk_norm()) continue;
    layer.q_norm.fill_(1.5).select(0, 0).fill_(0.5);  // told apart from k's, and element from element
    layer.k_norm.select(0, 1).fill_(2.0);
  }
  return model;
}

inline PackedBatch pack_of(const std::vector<Invocation>& calls, bool share_prefixes = true) {
  std::vector<const Invocation*> pointers;
  for (const Invocation& call : calls) pointers.push_back(&call);
  const auto packs = align_pack(pointers, {.max_tokens = 4096, .share_prefixes = share_prefixes});
  return packs.value().front();
}

/// Of the call's own sequence, row by row: what stands beside the cache of an engine that served it.
inline Digest aligned_digest(const Invocation& call) {
  const Ints ids = sequence_of(call);
  StateDigest digest;
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) digest.append(ids[i], static_cast<std::int32_t>(i));
  return digest.finish(ids.back());
}

}  // namespace memopd::testing

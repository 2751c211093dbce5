// A request in a slot, and the weights it runs on.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "policies/engine/engine.hpp"
#include "policies/engine/kv_cache.hpp"
#include "policies/model/state_digest.hpp"
#include "policies/model/transformer.hpp"
#include "policies/text/stop_matcher.hpp"

namespace memopd {

/// One version of the weights.
struct WeightGeneration {
  Transformer model;
  std::int64_t lineage = 0;
  std::int64_t policy_version = 0;
};

/// The slot holds keys and values of token_ids[0 .. num_cached), all computed by `weights`.
struct Sequence {
  using Clock = std::chrono::steady_clock;

  Sequence(GenerateRequest generate_request, std::int32_t cache_slot, const WeightGeneration* used_weights)
      : request(std::move(generate_request)),
        slot(cache_slot),
        weights(used_weights),
        token_ids(std::move(request.prompt_token_ids)),
        num_prompt(static_cast<std::int32_t>(token_ids.size())),
        matcher(request.stop_strings) {
    result.request_id = request.request_id;
  }

  /// Its cache has to be computed, from all of token_ids.
  [[nodiscard]] bool is_pending() const { return num_cached == 0; }
  [[nodiscard]] std::int32_t num_tokens() const { return static_cast<std::int32_t>(token_ids.size()); }
  [[nodiscard]] std::int32_t num_response() const { return num_tokens() - num_prompt; }

  /// Of what stands beside the entries of the slot, and the last token, which was not fed (AP-6).
  [[nodiscard]] Digest digest(const KvCache& cache) const {
    StateDigest state;
    for (std::int32_t index = 0; index < num_cached; ++index) {
      const CachedToken token = cache.token(slot, index);
      state.append(token.id, token.position);
    }
    return state.finish(token_ids.back());
  }

  GenerateRequest request;  ///< without its prompt
  std::int32_t slot;
  const WeightGeneration* weights;
  std::vector<std::int32_t> token_ids;  ///< prompt ++ response so far
  std::int32_t num_prompt;
  std::int32_t num_cached = 0;
  StopMatcher matcher;
  GenerateResult result;
  Clock::time_point decoding_since{};
  bool is_finished = false;
};

}  // namespace memopd

// A request in a slot, and the weights it runs on.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "policies/engine/engine.hpp"
#include "policies/engine/kv_cache.hpp"
#include "policies/engine/sampler.hpp"
#include "policies/model/state_digest.hpp"
#include "policies/model/transformer.hpp"
#include "policies/text/stop_matcher.hpp"

namespace memopd {

/// One version of the weights.
struct WeightGeneration {
  Transformer model;
  std::int64_t lineage = 0;
  std::int64_t policy_version = 0;
  std::int64_t load = 0;  ///< which of all loads brought it
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

  /// token_ids have to be read before the next can be sampled.
  [[nodiscard]] bool is_pending() const { return !is_read; }
  [[nodiscard]] std::int32_t num_tokens() const { return static_cast<std::int32_t>(token_ids.size()); }
  [[nodiscard]] std::int32_t num_response() const { return num_tokens() - num_prompt; }

  /// What the planned forward pass reads.
  [[nodiscard]] std::span<const std::int32_t> reading() const {
    return std::span(token_ids).subspan(static_cast<std::size_t>(num_cached), static_cast<std::size_t>(num_reading));
  }

  /// One more token, sampled by `weights`.
  void append(const SampledToken& token) {
    token_ids.push_back(token.id);
    result.response_token_ids.push_back(token.id);
    result.rollout_log_probs.push_back(token.log_prob);
    if (request.sampling.temperature > 0 && cuts(request.sampling)) result.log_kept_mass.push_back(token.log_kept_mass);
    auto& versions = result.policy_versions;
    if (versions.empty() || versions.back().policy_version != weights->policy_version) {
      versions.push_back({weights->policy_version, 0});
    }
    ++versions.back().count;
  }

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
  std::int32_t num_reading = 0;  ///< by the forward pass that is planned
  bool is_read = false;
  bool has_lost_part = false;  ///< while it was read, to a swap
  StopMatcher matcher;
  GenerateResult result;
  Clock::time_point decoding_since{};
  bool is_finished = false;
};

}  // namespace memopd

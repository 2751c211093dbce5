// One model call, as ids: what the engine was given and what it sampled. Everything downstream is a view of these.
//
// AP-1 identity   prompt_token_ids and response_token_ids are the engine's own; nothing is decoded and encoded again.
// RL-3 lag        every response token carries the policy_version that sampled it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/trajectory_id.hpp"

namespace memopd {

enum class SpanKind : std::uint8_t { instruction, question, kept, observation };

/// Half-open range of prompt token indices and what it holds. Spans of a prompt are ordered, disjoint and cover it.
struct Span {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  SpanKind kind = SpanKind::instruction;

  friend bool operator==(const Span&, const Span&) = default;
};

/// How a response is sampled. Temperature 0 = argmax, lowest id on ties, log-prob at 1.
struct Sampling {
  double temperature = 1.0;                ///< >= 0
  double top_p = 1.0;                      ///< (0, 1]; 1 = off
  std::int32_t top_k = 0;                  ///< >= 0; 0 = off
  double min_p = 0.0;                      ///< [0, 1); 0 = off
  std::int32_t max_response_tokens = 256;  ///< >= 1
  std::uint64_t seed = 0;                  ///< of this invocation

  friend bool operator==(const Sampling&, const Sampling&) = default;
};

enum class FinishReason : std::uint8_t {
  stop,     ///< a stop string was completed
  eos,      ///< the end-of-sequence id was sampled
  length,   ///< max_response_tokens or the context limit
  aborted,  ///< the request was given up
};

/// `count` consecutive response tokens sampled by `policy_version` (run-length).
struct VersionRun {
  std::int64_t policy_version = 0;
  std::int32_t count = 0;

  friend bool operator==(const VersionRun&, const VersionRun&) = default;
};

/// 128-bit digest of what was really fed (AP-6); all zero = not computed.
using Digest = std::array<std::uint64_t, 2>;

/// Wall-clock milliseconds; metrics only, never part of a result.
struct InvocationTimings {
  double queue_ms = 0;
  double prefill_ms = 0;
  double decode_ms = 0;
};

/// P prompt tokens, A response tokens.
struct Invocation {
  TrajectoryId trajectory_id;
  std::int32_t attempt = 0;
  std::int32_t invocation_index = 0;             ///< 0-based within the attempt
  std::vector<std::int32_t> prompt_token_ids;    ///< [P], P >= 1
  std::vector<Span> spans;                       ///< cover [0, P)
  std::vector<std::int32_t> response_token_ids;  ///< [A], terminator included; A may be 0
  std::vector<float> rollout_log_probs;          ///< [A] nats, full softmax at sampling.temperature
  std::vector<float> log_kept_mass;              ///< [A] when top_p, top_k or min_p cut, else empty
  std::vector<VersionRun> policy_versions;       ///< counts sum to A
  Sampling sampling;
  FinishReason finish_reason = FinishReason::stop;
  double reward = 0;  ///< per-turn reward, on the last response token
  Digest digest{};
  InvocationTimings timings;
};

}  // namespace memopd

// Generation for many requests at a time: continuous batching over preallocated key/value slots.
//
// A request's result is a function of (weights, prompt, sampling, stop strings): noise is philox(sampling.seed, token
// index) and never depends on slot, batch or order. Numbers of a row may differ in the last bits with the batch around it,
// unless is_deterministic.
// RL-7 pure request  with is_deterministic: equal ids and equal bits of log-probs, whatever the neighbours, the slot, the
//                    engine, and whether tokens were read as a prompt, in parts or one by one, or found cached.
// A cache is only ever read by the weights that computed it, under equal ids at equal positions (prefix_cache.hpp).
//
// Sampling, at token t of the response, over the ids [0, scored_vocab) with logits z:
//   p = softmax(z / temperature); top_k, then top_p, then min_p keep a set S of ids (each over the full p);
//   the id is the first in id order whose cumulated mass of S exceeds u * mass(S), u = philox_uniform(seed, t).
//   rollout_log_probs = log p(id), over the full softmax; log_kept_mass = log mass(S), only when something can be cut.
//   Temperature 0: argmax, lowest id on ties, log-prob at temperature 1, log_kept_mass empty.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "policies/model/model_config.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/data/invocation.hpp"
#include "runtime/data/tensor.hpp"

namespace memopd {

class Tokenizer;

/// What new weights do to requests in flight. Waiting requests start on the new ones in any case.
enum class WeightSwap : std::uint8_t {
  refuse,   ///< load_weights is refused while a request is active
  finish,   ///< they finish on the weights they began with, which are kept until then
  rebuild,  ///< they go on with the new ones: prompt and response so far are read again
};

struct EngineOptions {
  std::int32_t max_sequences = 64;         ///< slots: sequences decoded at a time; >= 1
  std::int32_t max_batch_tokens = 8192;    ///< prompt tokens computed by one step; >= 1; a longer prompt takes several
  std::int32_t max_context_tokens = 1024;  ///< prompt + response; >= 2
  std::int32_t scored_vocab = 0;           ///< ids that may be sampled: [0, scored_vocab); 0 = the model's vocabulary
  bool is_deterministic = false;           ///< RL-7; costs whole tiles of 64 rows, see README
  WeightSwap weight_swap = WeightSwap::refuse;
  /// finish: weights kept in memory, the newest included; >= 1. What would need one more makes the requests of the oldest
  /// go on with the new ones, as rebuild does: counted, logged once.
  std::int32_t max_weight_generations = 3;
  /// Memory for the entries of finished sequences, rounded up to whole contexts; what they share with later prompts is not
  /// computed again. 0 = nothing is shared, not even among sequences in work; >= 0
  std::int32_t prefix_cache_tokens = 8192;
};

struct GenerateRequest {
  std::uint64_t request_id = 0;                  ///< unique among the requests that are not finished
  std::vector<std::int32_t> prompt_token_ids{};  ///< [P], P >= 1
  Sampling sampling{};
  std::vector<std::string> stop_strings{};  ///< matched on the bytes of the response; no empty string
};

struct GenerateResult {
  std::uint64_t request_id = 0;
  std::vector<std::int32_t> response_token_ids;  ///< [A], the token that completed a stop string or eos included
  std::vector<float> rollout_log_probs;          ///< [A] nats
  std::vector<float> log_kept_mass;              ///< [A] when top_p, top_k or min_p is on, else empty
  std::vector<VersionRun> policy_versions;       ///< counts sum to A
  FinishReason finish_reason = FinishReason::stop;
  Digest digest{};  ///< of the tokens beside the cache it was sampled from (AP-6); zero when aborted
  InvocationTimings timings;
};

/// Since creation, unless said otherwise.
struct EngineCounters {
  std::int64_t prefill_tokens = 0;     ///< computed
  std::int64_t prefix_hit_tokens = 0;  ///< of prompts, found in the prefix cache instead
  std::int64_t generated_tokens = 0;
  std::int64_t finished_requests = 0;    ///< however they finished
  std::int64_t aborted_requests = 0;     ///< by abort()
  std::int64_t non_finite_requests = 0;  ///< ended `aborted` because their logits held a NaN or no finite value
  std::int64_t weight_loads = 0;
  std::int64_t rebuilt_sequences = 0;       ///< caches given up for newer weights
  std::int32_t num_active = 0;              ///< now, in slots
  std::int32_t num_waiting = 0;             ///< now
  std::int32_t num_weight_generations = 1;  ///< now, in memory
};

/// Not thread-safe: one owner. Torch-free; memory for all slots is taken at creation.
class Engine {
 public:
  /// @param tokenizer  gives the bytes of ids and an eos id; may be null when no request has stop strings
  /// @error those of load_transformer
  /// @error invalid_argument  an option outside its range, scored_vocab beyond the vocabulary
  /// @error internal          no memory for the slots
  static Expected<std::unique_ptr<Engine>> create(const std::filesystem::path& model_folder,
                                                  std::shared_ptr<const Tokenizer> tokenizer,
                                                  const EngineOptions& options);
  virtual ~Engine() = default;

  /// Queues a request; it is admitted in order of submission.
  /// @error invalid_argument  empty prompt, an id outside the vocabulary, a sampling field outside its range, an empty
  ///                          stop string, stop strings without a tokenizer
  /// @error invocation_too_long  P + 1 > max_context_tokens
  /// @error already_exists    a request of that id is not finished
  virtual Expected<void> submit(GenerateRequest request) = 0;

  /// Gives a request up: its result, with the tokens so far and `aborted`, comes with the next step. Unknown ids: no effect.
  virtual void abort(std::uint64_t request_id) = 0;

  /// Prefills what fits among the waiting, then decodes one token for every active sequence; returns what finished.
  virtual std::vector<GenerateResult> step() = 0;

  /// No request waits, runs or has an uncollected result.
  [[nodiscard]] virtual bool is_idle() const = 0;

  /// Swaps the weights between steps, as options.weight_swap says; every later token carries the version it was sampled by.
  /// Those of the lineage and version that were loaded last: nothing. A lower version is as good as a higher.
  /// @error refused         a request is active, with WeightSwap::refuse
  /// @error shape_mismatch  as load_weight_set; the old weights stay, nothing is rebuilt
  /// @error internal        no memory for them; likewise
  virtual Expected<void> load_weights(const WeightSet& weights) = 0;

  [[nodiscard]] virtual std::int64_t policy_version() const = 0;  ///< the newest; 0 until the first load_weights
  [[nodiscard]] virtual std::int64_t lineage() const = 0;         ///< 0 until the first load_weights
  [[nodiscard]] virtual std::uint64_t weight_fingerprint()
      const = 0;  ///< of the weights in use, as weight_fingerprint(WeightSet)
  [[nodiscard]] virtual const ModelConfig& model_config() const = 0;
  [[nodiscard]] virtual EngineCounters counters() const = 0;
};

}  // namespace memopd

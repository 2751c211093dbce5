// Supervised cold start: first rows that can only be predicted by copying, then an expert's invocations.
//
// The states are those of the rollout: an Invocation's recorded prompt and response ids, packed like the learner's. A
// share of the optimizer steps (sft.flat_frac) may read whole trajectories as persistent histories instead
// (history_pack.hpp): a teacher that is to score such histories must have seen some.
// Loss: cross-entropy at temperature 1 over ids [0, scored_vocab), mean over the response tokens of the whole batch
// (RL-5), response rows only (AP-4).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/config/schema.hpp"
#include "runtime/data/tensor.hpp"
#include "runtime/data/trajectory.hpp"

namespace memopd {

struct SftSetup {
  SftConfig sft;              ///< init folder, or [sft.model] at random; steps, EMA, threads, warm-up
  OptimizerConfig optimizer;  ///< schedule over sft.num_steps
  PackConfig pack;
  std::int32_t vocab_size = 0;              ///< rows of a head made here; ignored with sft.init; >= 1
  std::vector<std::int32_t> eos_token_ids;  ///< written to config.json of a model made here
  std::int32_t scored_vocab = 0;            ///< 0 = the model's vocabulary
  std::uint64_t seed = 0;                   ///< initialisation and copying rows
  DType dtype = DType::float32;             ///< float32 | float64
};

struct SftReport {
  double loss = 0;                     ///< nats per token, before the update
  std::int64_t num_tokens = 0;         ///< that the loss reads
  std::int64_t num_packed_tokens = 0;  ///< unique tokens computed
  double learning_rate = 0;
  double grad_norm = 0;     ///< before clipping
  bool is_skipped = false;  ///< no update: the gradient was not finite, or there was no response token
};

/// Whether optimizer step `step` (0-based) reads flat histories: drawn by (seed, step) against sft.flat_frac.
[[nodiscard]] bool is_flat_step(const SftConfig& sft, std::uint64_t seed, std::int64_t step);

/// Not thread-safe: one caller at a time; it uses sft.num_threads threads of its own.
class SftTrainer {
 public:
  /// @error what loading `sft.init` says; invalid_argument for a shape that is none
  static Expected<std::unique_ptr<SftTrainer>> create(const SftSetup& setup);
  virtual ~SftTrainer() = default;

  /// One of the sft.copy_warmup_steps optimizer steps on copying rows (copy_rows.hpp), with an optimizer of its own
  /// (lr sft.copy_warmup_lr, 30 warm-up steps, linear to 15 %, no weight decay). All of them come before step().
  /// @error refused  after the first step(), or after the last of them
  virtual Expected<SftReport> copy_warmup_step() = 0;

  /// One optimizer step on `batch`; pointers non-null, read during the call only.
  /// @error invocation_too_long  above pack.max_tokens
  virtual Expected<SftReport> step(std::span<const Invocation* const> batch) = 0;

  /// One optimizer step on the persistent histories of `batch`: loss on every response token of every call.
  /// @error invocation_too_long  a history above pack.max_tokens
  virtual Expected<SftReport> step_flat(std::span<const Trajectory* const> batch) = 0;

  /// Optimizer steps made by step() and step_flat().
  [[nodiscard]] virtual std::int64_t num_steps() const = 0;

  /// What save() writes: the averaged weights if sft.ema > 0 and a step was made, else the raw ones.
  /// policy_version = num_steps().
  [[nodiscard]] virtual WeightSet weights() const = 0;

  /// Writes a Hugging Face folder (config.json, model.safetensors); the caller adds the tokenizer.
  virtual Expected<void> save(const std::filesystem::path& folder) const = 0;
};

}  // namespace memopd

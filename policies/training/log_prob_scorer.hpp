// A frozen policy that scores recorded responses again: log-probs as the sampler states them, divergence from a teacher.
//
// Torch-free. For audits (`memopd ledger verify`, `show`); the learner has its own path, which this does not share beyond
// the model and the softmax. Shapes  R response rows of a pack.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "policies/training/opd.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/data/packed_batch.hpp"

namespace memopd {

struct DivergenceOptions {
  Divergence divergence = Divergence::forward_kl;
  double beta = 0.5;       ///< of jsd
  double temperature = 1;  ///< both sides; > 0
};

/// float32. Thread-safe once loaded.
class LogProbScorer {
 public:
  /// @param scored_vocab  ids [0, scored_vocab) are the support; 0 = the model's vocabulary
  /// @error those of load_transformer
  /// @error invalid_argument  scored_vocab beyond the model's vocabulary
  static Expected<std::unique_ptr<LogProbScorer>> load(const std::filesystem::path& folder, std::int32_t scored_vocab);
  ~LogProbScorer();

  /// [R] nats, full softmax over the support at `temperature`; 0 = at 1, as argmax sampling records it.
  /// @error invalid_argument  an id outside the vocabulary or a response id outside the support, a pack that breaks its
  ///                          invariants, a negative temperature
  [[nodiscard]] Expected<std::vector<double>> log_probs(const PackedBatch& pack, double temperature) const;

  /// [R] nats: divergence of this policy from `teacher` at every response row, both fed `pack`.
  /// @error as log_probs, for either model; another scored_vocab
  [[nodiscard]] Expected<std::vector<double>> divergences(const PackedBatch& pack, const LogProbScorer& teacher,
                                                          const DivergenceOptions& options) const;

 private:
  class Impl;
  explicit LogProbScorer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace memopd

// A frozen model that scores packs: one forward without gradients, the hidden state of every response row back.
//
// Torch-free. The rows are the head's input (after the final norm); whoever holds the head with the same
// head_fingerprint forms the distribution.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "policies/model/model_config.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/data/packed_batch.hpp"
#include "runtime/data/teacher_scores.hpp"
#include "runtime/data/tensor.hpp"

namespace memopd {

struct ScorerOptions {
  DType dtype = DType::float32;   ///< float32 | float64: arithmetic and the rows handed out
  std::int32_t scored_vocab = 0;  ///< ids the fingerprint covers; 0 = the model's vocabulary; at most that
  bool is_deterministic = false;  ///< RL-7: a row's bits do not depend on the pack around it
};

/// Thread-safe once loaded: `score` may run on several threads at a time.
class Scorer {
 public:
  /// @error those of load_model_config and load_transformer
  /// @error invalid_argument  scored_vocab beyond the model's vocabulary, another dtype
  static Expected<std::unique_ptr<Scorer>> load(const std::filesystem::path& folder, const ScorerOptions& options);
  ~Scorer();

  /// hidden [R, D], row_valid [R]. Row r is invalid when it is not finite or stands at a position beyond the model's
  /// max_position_embeddings; such rows are zero. digests [I] are of the tensors that were fed (AP-6).
  /// @error invalid_argument  an id outside the vocabulary, or a pack that breaks its invariants
  [[nodiscard]] Expected<TeacherScores> score(const PackedBatch& pack) const;

  [[nodiscard]] std::uint64_t head_fingerprint() const;
  [[nodiscard]] const ModelConfig& model_config() const;

 private:
  class Impl;
  explicit Scorer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace memopd

// Which checkpoints of a run stay on disk: the newest few, and the one where a metric was best.
//
// A checkpoint is a folder checkpoints/step-N; it is there once its state.json is. Deleting is by rename first, so that
// a crash in between leaves no folder that looks whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

/// Steps of the complete checkpoints in `folder` (checkpoints/), ascending; empty when there is no such folder.
[[nodiscard]] std::vector<std::int32_t> complete_checkpoints(const std::filesystem::path& folder);

class CheckpointKeeper {
 public:
  struct Best {
    std::int32_t step = 0;
    double value = 0;
  };

  /// Takes up what `folder` holds. @param keep  newest ones kept; >= 1
  CheckpointKeeper(std::filesystem::path folder, std::int32_t keep);

  [[nodiscard]] std::filesystem::path path(std::int32_t step) const;
  [[nodiscard]] bool has(std::int32_t step) const;
  [[nodiscard]] std::optional<std::int32_t> newest() const;

  /// The checkpoint of `step` is complete; deletes what need not be kept.
  void saved(std::int32_t step);
  /// The metric of `step`'s weights; higher is better, the earlier of equals stays. Ignored without that checkpoint.
  void evaluated(std::int32_t step, double value);

  [[nodiscard]] const std::optional<Best>& best() const { return best_; }
  void restore_best(std::optional<Best> best);
  /// Deletes checkpoints of steps after `step`: of a line of weights that is given up.
  void drop_after(std::int32_t step);

 private:
  void remove(std::int32_t step) const;
  void prune();

  std::filesystem::path folder_;
  std::size_t keep_;
  std::vector<std::int32_t> steps_;  // ascending
  std::optional<Best> best_;
};

}  // namespace memopd

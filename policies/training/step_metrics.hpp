// Sums over the rows and mini-batches of a step, over all ranks, and the metrics they make.
//
// Row means are over the included rows of every optimizer step (each epoch counts); `opd/kl_call_j` splits the
// divergence of the first epoch by invocation index. `ppo/max_ratio_error` is max |rho - 1| of the first optimizer step
// on this rank: above 1e-5, old log-probs and update disagree about the state.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "policies/training/head_losses.hpp"
#include "policies/training/micro_batch.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/collective/collective.hpp"

namespace memopd {

/// What of the trained trajectories needs no model: train/max_lag, train/truncated_frac (responses that ended at their
/// length limit), train/repeat_frac (response tokens that equal the two before them). The same on every rank.
/// @param trained  places in `batch`; none gives no metric
[[nodiscard]] std::map<std::string, double> trajectory_metrics(const StepBatch& batch,
                                                               std::span<const std::size_t> trained);

/// Which parts of a step there are; the others have no metrics.
struct StepParts {
  bool has_ppo = false;
  bool has_critic = false;
  bool has_groups = false;
  bool has_reference = false;
  bool has_opd = false;
  bool is_decoupled = false;
};

class StepMetrics {
 public:
  /// @param batch  the whole step: the same on every rank
  StepMetrics(const StepParts& parts, const StepBatch& batch);

  void add_rollout_gap(const MicroBatch& batch);
  void add_reference(const MicroBatch& batch);
  void add_returns(const MicroBatch& batch);
  void add_losses(const MicroBatch& batch, const HeadRowValues& values, const HeadLossOptions& options,
                  double opd_weight, bool is_first_epoch, bool is_first_update);
  void add_value_loss(double weighted_sum);
  void add(const std::string& sum, double value) { sums_.at(sum) += value; }

  /// Sums over ranks; every rank must call it.
  Expected<void> reduce(Collective& collective);

  /// @param num_mini_batches  over which loss metrics are averaged; 0 leaves them out
  [[nodiscard]] std::map<std::string, double> finish(std::int64_t num_mini_batches) const;

 private:
  void add_policy_metrics(double num_mini_batches, std::map<std::string, double>& metrics) const;
  [[nodiscard]] double at(const std::string& sum) const { return sums_.at(sum); }

  StepParts parts_;
  std::map<std::string, double> sums_;
  double max_ratio_error_ = 0;  ///< of the first optimizer step, of this rank
  std::vector<double> call_divergence_;
  std::vector<double> call_rows_;
};

}  // namespace memopd

// Sums over the rows and mini-batches of a step, over all ranks, and the metrics they make.
//
// Row means are over the included rows of every optimizer step (each epoch counts); `opd/kl_call_j` splits the
// divergence of the first epoch by invocation index. `ppo/max_ratio_error` is max |rho - 1| of the first optimizer step
// on this rank: above 1e-5, old log-probs and update disagree about the state.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "policies/training/head_losses.hpp"
#include "policies/training/micro_batch.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/collective/collective.hpp"

namespace memopd {

class StepMetrics {
 public:
  /// @param num_calls  longest trajectory of the step, in invocations; the same on every rank
  StepMetrics(bool has_ppo, bool has_opd, std::size_t num_calls);

  void add_rollout_gap(const MicroBatch& batch);
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
  [[nodiscard]] double at(const std::string& sum) const { return sums_.at(sum); }

  bool has_ppo_;
  bool has_opd_;
  std::map<std::string, double> sums_;
  double max_ratio_error_ = 0;  ///< of the first optimizer step, of this rank
  std::vector<double> call_divergence_;
  std::vector<double> call_rows_;
};

}  // namespace memopd

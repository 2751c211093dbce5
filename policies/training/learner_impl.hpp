// The learner behind learner.hpp: what it holds, and the phases of a step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "policies/model/critic.hpp"
#include "policies/model/transformer.hpp"
#include "policies/training/adamw.hpp"
#include "policies/training/advantages.hpp"
#include "policies/training/head_losses.hpp"
#include "policies/training/learner.hpp"
#include "policies/training/micro_batch.hpp"
#include "policies/training/step_metrics.hpp"
#include "policies/training/step_plan.hpp"
#include "policies/training/worker_threads.hpp"

namespace memopd {
class LearnerImpl final : public Learner {
 public:
  struct Models {
    Transformer student;
    std::optional<Critic> critic{};          ///< iff ppo.coef > 0 and the estimator is gae
    std::optional<Transformer> reference{};  ///< frozen; iff ppo.reference_kl_coef > 0
    at::Tensor teacher_head_VE{};            ///< iff opd.coef > 0
    std::uint64_t teacher_fingerprint = 0;
    std::int32_t scored_vocab = 0;
  };

  LearnerImpl(LearnerSetup setup, Estimator estimator, Models models, HeadLossOptions losses,
              std::shared_ptr<Collective> collective);

  Expected<StepReport> step(const StepBatch& batch, const ScoreLookup& lookup) override;
  [[nodiscard]] WeightSet weights() const override;
  Expected<void> save_checkpoint(const std::filesystem::path& folder, const std::string& run_state) const override;
  Expected<void> load_checkpoint(const std::filesystem::path& folder) override;
  [[nodiscard]] std::int64_t policy_version() const override { return policy_version_; }

 private:
  /// Scores of this rank's share, and which selected trajectories lost theirs on any rank.
  struct FetchedScores {
    std::vector<std::vector<std::shared_ptr<const TeacherScores>>> of_item;  ///< [items][invocations]
    std::vector<std::uint8_t> is_lost;                                       ///< [items]
  };
  /// A step that is cut and packed.
  struct Prepared {
    Selection selection;
    FetchedScores scores;
    std::vector<std::size_t> trained;  ///< places in the batch, rising: what is selected and not lost
    std::vector<MiniBatch> mini_batches;
  };
  struct Update {
    double grad_norm = 0;
    double critic_grad_norm = 0;
    double learning_rate = 0;
    bool is_skipped = false;
  };
  struct UpdateTotals {
    double grad_norm = 0;  ///< sums over the updates made
    double critic_grad_norm = 0;
    double learning_rate = 0;           ///< of the last one
    double optimizer_s = 0;             ///< wall time of reduction, clipping and AdamW
    std::int64_t num_mini_batches = 0;  ///< skipped updates included
  };
  struct MicroBatchGradients {
    HeadRowValues values;
    std::vector<at::Tensor> policy;
    std::vector<at::Tensor> critic{};
    double value_loss = 0;  ///< sum over included rows / R
  };
  using ScoreObjects = std::map<ObjectRef, std::shared_ptr<const TeacherScores>>;
  using Parts = std::vector<std::vector<std::size_t>>;
  /// This rank's rows of each trajectory, in time order.
  using RowsByTrajectory = std::map<std::size_t, std::vector<std::pair<MicroBatch*, InvocationRows>>>;

  [[nodiscard]] SelectionRules selection_rules() const;
  /// Whether place `index` of a mini-batch is this rank's.
  [[nodiscard]] bool is_mine(std::size_t index) const;

  // learner_batches.cpp
  Expected<Prepared> prepare(const StepBatch& step, const ScoreLookup& lookup, StepMetrics& metrics);
  Expected<FetchedScores> fetch_scores(const StepBatch& step, const Selection& selection, const Parts& parts,
                                       const ScoreLookup& lookup);
  /// Sets `lost_flag` when an object cannot be had.
  Expected<void> fetch_item(const StepBatch& step, const Selection::Item& item, const ScoreLookup& lookup,
                            ScoreObjects& objects, std::vector<std::shared_ptr<const TeacherScores>>& scores,
                            double& lost_flag) const;
  Expected<std::vector<MiniBatch>> make_mini_batches(const StepBatch& step, const Selection& selection,
                                                     const Parts& parts, const FetchedScores& scores) const;
  Expected<MiniBatch> make_mini_batch(const StepBatch& step, const Selection& selection,
                                      const std::vector<std::size_t>& part, const FetchedScores& scores) const;
  /// Counts what was fed differently in two places; an error in the aligned state.
  Expected<void> check_digests(const StepBatch& step, const std::vector<MiniBatch>& mini_batches,
                               StepMetrics& metrics) const;
  /// An error of any rank becomes one of all: without this the others would wait for it until their deadline.
  Expected<void> agree(const Expected<void>& mine);

  // learner_credit.cpp
  Expected<void> look(std::vector<MiniBatch>& mini_batches);
  void look_at(MicroBatch& batch) const;
  Expected<void> credit(const StepBatch& step, Prepared& prepared, StepMetrics& metrics);
  Expected<void> credit_groups(const StepBatch& step, const std::vector<std::size_t>& trained,
                               const RowsByTrajectory& rows, StepMetrics& metrics);
  Expected<void> whiten_and_weigh(const std::vector<MicroBatch*>& batches, StepMetrics& metrics);

  // learner_update.cpp
  Expected<void> update_all(const std::vector<MiniBatch>& mini_batches, StepReport& report, StepMetrics& metrics,
                            UpdateTotals& totals);
  Expected<Update> update_once(const MiniBatch& mini_batch, StepMetrics& metrics, bool is_first_epoch,
                               UpdateTotals& totals);
  /// @param weight  1/R of the mini-batch
  MicroBatchGradients gradients_of(const MicroBatch& batch, double weight) const;
  void critic_gradients(const MicroBatch& batch, const at::Tensor& rows_RD, double weight,
                        MicroBatchGradients& gradients) const;
  Expected<void> reduce(at::Tensor& flat_gradient);
  Expected<Update> apply(at::Tensor& gradient, at::Tensor& critic_gradient);
  void count_update(const Update& update, StepReport& report, UpdateTotals& totals);

  // learner.cpp
  [[nodiscard]] StepReport start_report(const StepBatch& step, const Prepared& prepared) const;
  Expected<void> finish_report(StepMetrics& metrics, const UpdateTotals& totals, StepReport& report);

  [[nodiscard]] bool has_ppo() const { return setup_.ppo.coef > 0; }
  [[nodiscard]] bool has_opd() const { return setup_.opd.coef > 0; }
  [[nodiscard]] bool is_flat() const { return setup_.learner.state == "persistent_history"; }
  [[nodiscard]] bool is_aligned() const { return !is_flat() && setup_.opd.state == "aligned"; }
  [[nodiscard]] bool is_decoupled() const { return has_ppo() && setup_.max_policy_lag > 0; }

  LearnerSetup setup_;
  Estimator estimator_;
  HeadLossOptions losses_;
  Models models_;
  std::shared_ptr<Collective> collective_;
  AdamW policy_optimizer_;
  std::optional<AdamW> critic_optimizer_;
  WorkerThreads threads_;

  std::int64_t policy_version_ = 0;
  std::int64_t lineage_ = 0;
  std::int64_t schedule_step_ = 0;  ///< optimizer steps tried, skipped ones included
  std::int32_t skipped_in_a_row_ = 0;
};

}  // namespace memopd

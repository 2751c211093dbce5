// align_pack: records what env actors emit, has it scored as it arrives, and closes steps.
//
// RL-1 ledger   a record is in the ledger before it is packed, scored or acknowledged, and on disk before its step is
//               handed to the learner.
// RL-2 once     what the learner made of a step is recorded trajectory by trajectory: trained, or dropped with a reason.
// Scoring call j while call j+1 is generated costs no staleness: a free teacher gets what waits (pack.teacher_flush).
// With opd.state other than "aligned" (a control) a trajectory is scored once it is whole, in the state of that setting.
// Evaluation calls enter the ledger, never a teacher pack.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "actors/messages.hpp"
#include "actors/step_assembler.hpp"
#include "policies/text/tokenizer.hpp"
#include "runtime/actor/actor.hpp"
#include "runtime/actor/actor_pool.hpp"
#include "runtime/ledger/ledger.hpp"
#include "runtime/ledger/trajectory_text.hpp"

namespace memopd {

class AlignPackActor : public Actor {
 public:
  explicit AlignPackActor(RoleInit init);

 protected:
  void setup() override;

 private:
  /// Clock readings of the step in progress, for the share of scoring that rollouts hide.
  struct Overlap {
    std::chrono::nanoseconds last_invocation{};
    std::chrono::nanoseconds last_score{};
    double busy_ms = 0;
    std::int64_t num_packs = 0;
    std::int64_t num_tokens = 0;
    std::int64_t scores_before_close = 0;
  };

  Expected<Acknowledged> emit_invocation(const EmitInvocation& record);
  Expected<Acknowledged> emit_trajectory(const EmitTrajectory& record);
  Later<StepClosed> close_step(const CloseStep& request);
  Expected<Acknowledged> record_step(const RecordStep& request);
  Expected<LineageBegun> begin_lineage(const BeginLineage& request);

  Expected<void> load();
  Expected<void> open_records(const Config& config);
  Expected<void> append_text(const Trajectory& record);
  void send_packs();
  void send(const TeacherPack& pack, std::int32_t num_tries);
  void answer_if_complete();
  [[nodiscard]] std::map<std::string, double> overlap_metrics() const;

  RoleInit init_;
  std::chrono::milliseconds ask_timeout_{};
  std::unique_ptr<StepAssembler> assembler_;
  std::unique_ptr<LedgerWriter> ledger_;
  std::unique_ptr<TrajectoryTextWriter> text_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::optional<ActorPool> teachers_;
  std::optional<CloseStep> closing_;
  std::optional<Promise<StepClosed>> closed_;
  std::map<TrajectoryId, std::vector<Invocation>> open_;  ///< recorded, trajectory record not yet there
  Overlap overlap_;
  std::int32_t keep_steps_ = 0;
};

}  // namespace memopd

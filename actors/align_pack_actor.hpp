// align_pack: records what env actors emit, has it scored as it arrives, and closes steps.
//
// RL-1 ledger   a record is in the ledger before it is packed, scored or acknowledged, and on disk before its step is
//               handed to the learner.
// RL-2 once     what the learner made of a step is recorded trajectory by trajectory: trained, or dropped with a reason.
//               Repeats have the effect of one; records of an earlier lineage are acknowledged and have none.
// Started again it reads the open steps from the ledger and asks the teachers for their scores; without a ledger what it
// had is lost (the coordinator then ends the run).
// Scoring call j while call j+1 is generated costs no staleness: a free teacher gets what waits (pack.teacher_flush).
// With opd.state other than "aligned" (a control) a trajectory is scored once it is whole, in the state of that setting.
// Evaluation calls enter the ledger, never a teacher pack.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "actors/messages.hpp"
#include "actors/run_records.hpp"
#include "actors/step_assembler.hpp"
#include "policies/text/tokenizer.hpp"
#include "runtime/actor/actor.hpp"
#include "runtime/actor/actor_pool.hpp"

namespace memopd {

class AlignPackActor : public Actor {
 public:
  explicit AlignPackActor(RoleInit init);

 protected:
  void setup() override;
  void started() override;

 private:
  struct ClosedStep {
    std::int64_t lineage = 0;
    std::int32_t step = 0;
    StepClosed answer;
  };
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
  Expected<void> open_records(const Config& config, std::shared_ptr<const Tokenizer> tokenizer);
  Expected<void> take_up_open_steps(const OpenStepRecords& open);
  [[nodiscard]] bool is_of_earlier_lineage(std::int64_t lineage);
  void forget_if(bool is_new_lineage, std::int32_t first_step);
  void send_packs();
  void send(const TeacherPack& pack, std::int32_t num_tries);
  void take_scores(const TeacherPack& pack, std::int32_t num_tries, const Expected<PackScored>& scored);
  void answer_if_complete();
  [[nodiscard]] std::map<std::string, double> overlap_metrics() const;

  RoleInit init_;
  std::chrono::milliseconds ask_timeout_{};
  std::unique_ptr<StepAssembler> assembler_;
  std::function<std::unique_ptr<StepAssembler>()> make_assembler_;
  std::unique_ptr<RunRecords> records_;  ///< none: nothing is written
  std::optional<ActorPool> teachers_;
  std::optional<CloseStep> closing_;
  std::vector<Promise<StepClosed>> askers_;  ///< for the step being closed: a repeat is one more
  std::optional<ClosedStep> closed_;         ///< the latest
  std::int64_t lineage_ = 0;                 ///< without records_, which know it
  std::int64_t num_lineages_ = 0;            ///< begun here; what was asked of teachers before is of no use
  std::int64_t num_of_earlier_lineages_ = 0;
  Overlap overlap_;
  std::int32_t keep_steps_ = 0;
};

}  // namespace memopd

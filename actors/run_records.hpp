// What a run keeps of its trajectories on disk: the ledger and its text view, and what of both a restart takes up again.
//
// RL-1 ledger   what add() took is in the kernel's hands when it returns: the death of the process loses nothing.
// RL-2 once     a record that comes again is not written again, nor is its text; nor are the records of a step.
// Part of the actor that owns it: runs on its context.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "actors/messages.hpp"
#include "policies/text/tokenizer.hpp"
#include "runtime/ledger/ledger.hpp"
#include "runtime/ledger/trajectory_text.hpp"

namespace memopd {

/// The training records of the steps that are not closed, as the ledger has them.
struct OpenStepRecords {
  std::int32_t first_open_step = 0;
  std::vector<std::variant<EmitInvocation, EmitTrajectory>> records;  ///< in the order of writing
};

class RunRecords {
 public:
  /// Begins `run_folder`/ledger and /trajectories. @error those of LedgerWriter::create
  static Expected<std::unique_ptr<RunRecords>> create(const std::filesystem::path& run_folder,
                                                      std::shared_ptr<const Tokenizer> tokenizer);
  /// Goes on with them in the ledger's last lineage, and writes a text that was about to be written.
  /// @error those of LedgerWriter::open
  static Expected<std::unique_ptr<RunRecords>> open(const std::filesystem::path& run_folder,
                                                    std::shared_ptr<const Tokenizer> tokenizer);

  /// What open() found; empty at the second call.
  [[nodiscard]] OpenStepRecords take_open_steps() { return std::exchange(open_steps_, {}); }

  /// @error those of LedgerWriter::append and TrajectoryTextWriter::append
  Expected<AppendResult> add(const Invocation& invocation);
  Expected<AppendResult> add(const Trajectory& record, std::int32_t num_invocations);
  /// What became of a step, synced; said again after it was said, wholly or in part: nothing twice.
  /// @param keep_steps  older segments are pruned; 0 = none
  Expected<void> record_step(const RecordStep& request, std::int32_t keep_steps);
  /// As BeginLineage says, synced. @return the lineage from now on
  Expected<std::int64_t> begin_lineage(const BeginLineage& request);
  Expected<void> sync() { return ledger_->sync(); }
  [[nodiscard]] std::int64_t lineage() const { return ledger_->lineage(); }

 private:
  using Attempt = std::pair<TrajectoryId, std::int32_t>;
  /// What is recorded of an attempt whose text is not written: re-asks may bring its records in any order.
  struct Untold {
    std::vector<Invocation> invocations;
    std::optional<Trajectory> record;
    std::int32_t num_invocations = 0;  ///< as the record says
  };

  explicit RunRecords(std::shared_ptr<const Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {}
  Expected<void> begin_text(const std::filesystem::path& run_folder);
  Expected<void> take_up(LedgerRecord record);
  [[nodiscard]] std::optional<Trajectory> take_whole(const Attempt& attempt);
  Expected<void> tell_if_whole(const Attempt& attempt);
  [[nodiscard]] std::vector<CallText> texts_of(const Trajectory& trajectory) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<LedgerWriter> ledger_;
  std::unique_ptr<TrajectoryTextWriter> text_;
  std::map<Attempt, Untold> untold_;
  OpenStepRecords open_steps_;
  std::optional<Trajectory> last_told_;  ///< while opening: the attempt that became whole last
};

}  // namespace memopd

// What `memopd sft` trains on: the tokenizer, demonstrations by the expert, and the tasks of its probes.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "actors/messages.hpp"
#include "envs/environment.hpp"
#include "policies/text/tokenizer.hpp"
#include "runtime/config/schema.hpp"
#include "tools/session/local_session.hpp"

namespace memopd {

/// sft.tokenizer, or one trained on the environment's documents with the protocol's tags as added tokens.
Expected<Tokenizer> sft_tokenizer(const Config& config);

/// Writes the tokenizer's word pieces to sft.output/word_pieces.txt and, if the environment has an option `pieces` that
/// is not set, sets it to that file: names invented for demonstrations then exercise every token.
Expected<void> offer_word_pieces(const Tokenizer& tokenizer, Config& config);

/// Tasks of probe `index`: of the first split of [eval] (else "val"), other ones than the evaluation's.
Expected<std::vector<RunTask>> probe_tasks(const Config& config, const TaskSource& source, std::int32_t index);

/// Trajectories that one optimizer step trains on, and their invocations; keeps what they belong to alive.
class DemonstrationBatch {
 public:
  void add(std::shared_ptr<const StepBatch> owner, const Trajectory& trajectory);
  [[nodiscard]] const std::vector<const Invocation*>& pointers() const { return invocations_; }
  [[nodiscard]] const std::vector<const Trajectory*>& trajectories() const { return trajectories_; }

 private:
  std::vector<std::shared_ptr<const StepBatch>> owners_;
  std::vector<const Invocation*> invocations_;
  std::vector<const Trajectory*> trajectories_;
};

/// Endless streams of the expert's trajectories, made while the trainer computes: one of sft.objectives, one of
/// sft.flat_objectives. Every trajectory enters once. What comes next depends on the order of the calls only.
class DemonstrationStream {
 public:
  DemonstrationStream(const Config& config, const TaskSource& source, LocalSession& session);
  DemonstrationStream(const DemonstrationStream&) = delete;
  DemonstrationStream& operator=(const DemonstrationStream&) = delete;

  /// Whole trajectories of one of the two, until there are at least `num_invocations`.
  /// @error env_failed  the expert left more than a tenth of a chunk uncompleted
  Expected<DemonstrationBatch> next(std::int32_t num_invocations, bool is_flat);

 private:
  struct Waiting {
    std::shared_ptr<const StepBatch> owner;
    std::size_t index = 0;
  };
  struct Lane {
    const std::vector<std::int32_t>* objectives = nullptr;
    std::deque<Waiting> waiting;
  };
  /// One chunk is in the making at a time: align_pack forgets what it does not close.
  Expected<void> begin_chunk(Lane& lane);
  Expected<void> finish_chunk();
  Expected<void> refill(Lane& lane);

  const Config& config_;
  const TaskSource& source_;
  LocalSession& session_;
  Lane aligned_;
  Lane flat_;
  std::optional<Future<TasksDone>> pending_;
  Lane* pending_lane_ = nullptr;
  std::int32_t chunk_ = 0;
};

}  // namespace memopd

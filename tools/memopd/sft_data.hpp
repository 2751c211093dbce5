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

/// Invocations that one optimizer step trains on; keeps what they belong to alive.
class DemonstrationBatch {
 public:
  void add(std::shared_ptr<const StepBatch> owner, const Trajectory& trajectory);
  [[nodiscard]] const std::vector<const Invocation*>& pointers() const { return invocations_; }

 private:
  std::vector<std::shared_ptr<const StepBatch>> owners_;
  std::vector<const Invocation*> invocations_;
};

/// An endless stream of the expert's trajectories, made while the trainer computes. Every trajectory enters once.
class DemonstrationStream {
 public:
  DemonstrationStream(const Config& config, const TaskSource& source, LocalSession& session);

  /// Whole trajectories, until there are at least `num_invocations`.
  /// @error env_failed  the expert left more than a tenth of a chunk uncompleted
  Expected<DemonstrationBatch> next(std::int32_t num_invocations);

 private:
  struct Waiting {
    std::shared_ptr<const StepBatch> owner;
    std::size_t index = 0;
  };
  Expected<void> begin_chunk();
  Expected<void> finish_chunk();

  const Config& config_;
  const TaskSource& source_;
  LocalSession& session_;
  std::optional<Future<TasksDone>> pending_;
  std::deque<Waiting> waiting_;
  std::int32_t chunk_ = 0;
};

}  // namespace memopd

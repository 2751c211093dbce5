// learner: one rank of the learner behind a mailbox. Spawned blocking: a step takes seconds.
//
// CL-3 resume  one that was restarted knows nothing: it refuses everything (target_down) until RestoreLearner tells it
//              what to go on from. A RestoreLearner of an earlier recovery than the last is refused, a repeat of the last
//              has no effect; so is a TrainStep that comes twice trained once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/messages.hpp"
#include "actors/rank_group.hpp"
#include "policies/training/learner.hpp"
#include "runtime/actor/actor.hpp"
#include "runtime/collective/collective.hpp"
#include "runtime/config/schema.hpp"

namespace memopd {

/// What a Learner is made with, from the configuration. `scored_vocab` = the tokenizer's vocabulary.
[[nodiscard]] LearnerSetup learner_setup(const Config& config, std::int32_t scored_vocab);

class LearnerActor : public Actor {
 public:
  explicit LearnerActor(RoleInit init);

 protected:
  void setup() override;
  /// @error what Learner::create says
  [[nodiscard]] virtual Expected<std::unique_ptr<Learner>> make_learner(const LearnerSetup& setup,
                                                                        std::shared_ptr<Collective> collective) const;

 private:
  Expected<StepTrained> train(const TrainStep& request);
  Expected<CheckpointSaved> save(const SaveCheckpoint& request);
  Expected<WeightsShared> share(const ShareWeights&);
  Expected<LearnerRestored> restore(const RestoreLearner& request);
  Expected<void> load(const std::string& checkpoint, const ObjectRef& collective);
  [[nodiscard]] Expected<void> check_restored() const;
  [[nodiscard]] ObjectRef put_weights();

  RoleInit init_;
  RankPlace place_;
  std::unique_ptr<Learner> learner_;                          ///< none: restarted, not restored yet
  std::int64_t recovery_ = 0;                                 ///< the last
  std::optional<std::pair<ObjectRef, StepTrained>> trained_;  ///< the last step
};

}  // namespace memopd

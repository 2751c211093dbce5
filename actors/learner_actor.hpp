// learner: one rank of the learner behind a mailbox. Spawned blocking: a step takes seconds.
#pragma once

#include <memory>
#include <vector>

#include "actors/messages.hpp"
#include "policies/training/learner.hpp"
#include "runtime/actor/actor.hpp"
#include "runtime/collective/collective.hpp"
#include "runtime/config/schema.hpp"

namespace memopd {

/// The ranks of one process, put as an object whose reference travels in RoleInit.
using CollectiveGroup = std::vector<std::shared_ptr<Collective>>;

/// What a Learner is made with, from the configuration. `scored_vocab` = the tokenizer's vocabulary.
[[nodiscard]] LearnerSetup learner_setup(const Config& config, std::int32_t scored_vocab);

class LearnerActor : public Actor {
 public:
  explicit LearnerActor(RoleInit init);

 protected:
  void setup() override;

 private:
  Expected<StepTrained> train(const TrainStep& request);
  Expected<CheckpointSaved> save(const SaveCheckpoint& request);
  Expected<WeightsShared> share(const ShareWeights&);
  Expected<void> load();
  [[nodiscard]] ObjectRef put_weights();

  RoleInit init_;
  std::unique_ptr<Learner> learner_;
};

}  // namespace memopd

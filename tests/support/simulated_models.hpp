// Stand-ins for the models of a simulated run: pure functions of what they are asked, as the real ones.
#pragma once

#include <memory>

#include "policies/engine/engine.hpp"
#include "policies/text/tokenizer.hpp"
#include "policies/training/learner.hpp"
#include "runtime/actor/deterministic_cluster.hpp"

namespace memopd::testing {

/// The tokenizer of simulated runs, in `folder` too when it is not empty.
const Tokenizer& simulated_tokenizer();

/// Answers a prompt after one to three decode steps of 2 ms each; call n of a trajectory searches or answers.
/// @param cluster  whose clock a decode step moves
std::unique_ptr<Engine> make_simulated_engine(std::shared_ptr<const Tokenizer> tokenizer, WeightSwap swap,
                                              DeterministicCluster* cluster);

/// Weights = a hash of everything it was trained on. Checks what a learner may rely on: versions, scores, order.
std::unique_ptr<Learner> make_simulated_learner(bool needs_scores, std::int32_t max_policy_lag);

}  // namespace memopd::testing

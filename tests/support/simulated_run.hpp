// A whole training run in virtual time, whose actors die and come back: the run's own actors around stand-ins for models.
//
// Student, teacher and learner are the run's own actors with small functions in place of their models: a response is a
// function of (weights, prompt, seed), the weights are a hash chain of everything they were trained on, so that two runs
// trained on the same if and only if their final weights are equal.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/messages.hpp"
#include "runtime/actor/deterministic_cluster.hpp"
#include "runtime/ledger/audit.hpp"
#include "runtime/telemetry/summary.hpp"

namespace memopd::testing {

struct SimulationOptions {
  std::uint64_t seed = 0;
  std::int32_t num_kills = 0;          ///< of actors of `victims`, at random moments
  std::vector<std::string> victims{};  ///< groups
  double duplicate = 0;                ///< probability per delivery
  double lose = 0;                     ///< likewise, of what passes between env actors and others
  std::chrono::milliseconds max_delay{20};
  bool has_slow_peer = false;  ///< every message to one actor takes half a second more
  std::int32_t max_policy_lag = 0;
  std::int32_t checkpoint_every = 2;  ///< 0: none before the end
  bool with_ledger = true;
  std::int32_t restart_after_ms = 400;  ///< at most
};

struct SimulationResult {
  RunEnded ended;
  std::string final_weights;         ///< of the last checkpoint; "" = there is none
  std::vector<std::string> metrics;  ///< "step name value" of all that must not depend on time or load, in order
  std::vector<std::string> texts;    ///< "id attempt a calls n" of each line of the text view, in order
  LedgerAudit audit;
  Summary summary;
  std::int32_t num_restarts = 0;
  std::int32_t num_recoveries = 0;  ///< of learners
  std::int64_t num_deliveries = 0;
  std::string first_failure;  ///< of an actor that did not return
};

/// So that actors named "simulated_*" and their environment can be used in `cluster`, apart from a whole run.
void register_simulation(DeterministicCluster& cluster);

/// Runs to the end, at most ten virtual hours.
SimulationResult simulate(const SimulationOptions& options);

}  // namespace memopd::testing

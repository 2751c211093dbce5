// student: the generation engine behind a mailbox. One decode step per turn, so that requests and weights get in between.
//
// RL-7 pure request  a student that was restarted asks the coordinator for the weights everybody samples with, and holds
//                    requests until it has them. (Not the teacher in its evaluation: its weights do not change.)
// With run.mode "sync" weights change between steps: what is still being sampled then has no asker any more (its env actor
// died, or gave it up), and is aborted.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "actors/messages.hpp"
#include "policies/engine/engine.hpp"
#include "policies/text/tokenizer.hpp"
#include "runtime/actor/actor.hpp"

namespace memopd {

/// To itself: one more decode step.
struct DecodeStep {};
MEMOPD_MESSAGE(DecodeStep, 1)

/// To itself: ask for the weights again.
struct AskForWeights {};
MEMOPD_MESSAGE(AskForWeights, 1)

class StudentActor : public Actor {
 public:
  explicit StudentActor(RoleInit init);

 protected:
  void setup() override;
  void started() override;
  /// @error what Engine::create says
  [[nodiscard]] virtual Expected<std::unique_ptr<Engine>> make_engine(const std::shared_ptr<const Tokenizer>& tokenizer,
                                                                      const EngineOptions& options) const;

 private:
  Later<Generated> generate(const Generate& request);
  void decode_step(const DecodeStep&);
  Expected<WeightsLoaded> load_weights(const LoadWeights& request);
  Expected<void> load();
  Expected<void> load_now(const ObjectRef& reference);
  void ask_for_weights(const AskForWeights&);
  void get_weights();
  void release_held();
  void refuse_held(const Error& error);
  void submit(const Generate& request, Promise<Generated> answer);

  RoleInit init_;
  std::unique_ptr<Engine> engine_;
  std::map<std::uint64_t, Promise<Generated>> waiting_;
  std::uint64_t next_request_ = 1;
  std::vector<std::pair<Generate, Promise<Generated>>> held_;    ///< until the weights are there
  std::optional<std::pair<std::int64_t, std::int64_t>> loaded_;  ///< lineage and version of the last weights
  std::chrono::milliseconds ask_timeout_{};
  ObjectRef lost_;  ///< weights that we were told of and that are nowhere
  bool is_sync_ = true;
  bool lacks_weights_ = false;
  bool is_decoding_ = false;
};

}  // namespace memopd

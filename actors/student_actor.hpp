// student: the generation engine behind a mailbox. One decode step per turn, so that requests and weights get in between.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "actors/messages.hpp"
#include "policies/engine/engine.hpp"
#include "runtime/actor/actor.hpp"

namespace memopd {

/// To itself: one more decode step.
struct DecodeStep {};
MEMOPD_MESSAGE(DecodeStep, 1)

class StudentActor : public Actor {
 public:
  explicit StudentActor(RoleInit init);

 protected:
  void setup() override;

 private:
  Later<Generated> generate(const Generate& request);
  void decode_step(const DecodeStep&);
  Expected<WeightsLoaded> load_weights(const LoadWeights& request);
  Expected<void> load();

  RoleInit init_;
  std::unique_ptr<Engine> engine_;
  std::map<std::uint64_t, Promise<Generated>> waiting_;
  std::uint64_t next_request_ = 1;
  bool is_decoding_ = false;
};

}  // namespace memopd

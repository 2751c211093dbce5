// teacher: a frozen model that scores packs. Stateless; any number of them; a dead one is asked again elsewhere.
#pragma once

#include <memory>

#include "actors/messages.hpp"
#include "policies/model/scorer.hpp"
#include "runtime/actor/actor.hpp"

namespace memopd {

class TeacherActor : public Actor {
 public:
  explicit TeacherActor(RoleInit init);

 protected:
  void setup() override;

 private:
  Expected<PackScored> score(const ScorePack& request);
  Expected<void> load();

  RoleInit init_;
  std::unique_ptr<Scorer> scorer_;
};

}  // namespace memopd

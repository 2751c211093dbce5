// expert: answers Generate as a student does, from an environment's scripted expert. Demonstrations then take the
// ordinary rollout path, with its prompts, ids and retriever.
#pragma once

#include <memory>
#include <string>

#include "actors/messages.hpp"
#include "envs/environment.hpp"
#include "policies/text/tokenizer.hpp"
#include "runtime/actor/actor.hpp"

namespace memopd {

class ExpertActor : public Actor {
 public:
  explicit ExpertActor(RoleInit init);

 protected:
  void setup() override;

 private:
  Expected<Generated> generate(const Generate& request);
  Expected<void> load();

  RoleInit init_;
  std::unique_ptr<Expert> expert_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::string question_template_;
};

}  // namespace memopd

#include "actors/teacher_actor.hpp"

#include <chrono>
#include <utility>

#include "actors/role_setup.hpp"
#include "runtime/objects/object_store.hpp"

namespace memopd {

MEMOPD_REGISTER_ACTOR("teacher", TeacherActor, RoleInit)

TeacherActor::TeacherActor(RoleInit init) : init_(std::move(init)) {}

void TeacherActor::setup() {
  on(&TeacherActor::score);
  if (auto loaded = load(); !loaded) {
    fail(loaded.error());
  }
}

Expected<void> TeacherActor::load() {
  auto config = load_role_config(init_);
  if (!config) {
    return unexpected(config.error());
  }
  auto tokenizer = load_role_tokenizer(init_);
  if (!tokenizer) {
    return unexpected(tokenizer.error());
  }
  auto scorer = Scorer::load(
      init_.model, {.scored_vocab = (*tokenizer)->vocab_size(), .is_deterministic = config->run.is_deterministic});
  if (!scorer) {
    return unexpected(scorer.error());
  }
  scorer_ = *std::move(scorer);
  return {};
}

Expected<PackScored> TeacherActor::score(const ScorePack& request) {
  const auto begin = std::chrono::steady_clock::now();
  auto pack = objects().get<PackedBatch>(request.pack);
  if (!pack) {
    return unexpected(pack.error());
  }
  auto scores = scorer_->score(**pack);
  if (!scores) {
    return unexpected(scores.error());
  }
  PackScored scored;
  scored.scores =
      objects().put(std::make_shared<const TeacherScores>(*std::move(scores)), Scope{ScopeKind::step, request.step});
  scored.head_fingerprint = scorer_->head_fingerprint();
  scored.busy_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return scored;
}

}  // namespace memopd

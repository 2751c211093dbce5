// retriever: full-text search over the corpus, for the "retrieve" tool of environments.
#pragma once

#include <optional>

#include "actors/messages.hpp"
#include "envs/retrieval/bm25_index.hpp"
#include "runtime/actor/actor.hpp"
#include "runtime/config/schema.hpp"

namespace memopd {

/// The index that the configuration asks for: an index file, a corpus file, or the environment's own corpus.
/// @error not_found, parse_error  with file and line
Expected<Bm25Index> open_index(const RetrieverConfig& config, const EnvConfig& env);

class RetrieverActor : public Actor {
 public:
  explicit RetrieverActor(RoleInit init);

 protected:
  void setup() override;

 private:
  Expected<Retrieved> retrieve(const Retrieve& request);
  Expected<void> load();

  RoleInit init_;
  std::int32_t topk_ = 1;
  std::optional<Bm25Index> index_;
};

}  // namespace memopd

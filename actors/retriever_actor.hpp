// retriever: full-text search over the corpus, for the "retrieve" tool of environments.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "actors/messages.hpp"
#include "envs/retrieval/bm25_index.hpp"
#include "runtime/actor/actor.hpp"
#include "runtime/config/schema.hpp"

namespace memopd {

/// The index that the configuration asks for: an index file, a corpus file, or the environment's own corpus.
/// @error not_found, parse_error  with file and line
Expected<Bm25Index> open_index(const RetrieverConfig& config, const EnvConfig& env);

/// To itself: the answer of this number is due.
struct AnswerDue {
  std::int64_t number = 0;
};
MEMOPD_MESSAGE(AnswerDue, 1, number)

class RetrieverActor : public Actor {
 public:
  explicit RetrieverActor(RoleInit init);

 protected:
  void setup() override;

 private:
  Later<Retrieved> retrieve(const Retrieve& request);
  void answer_due(const AnswerDue& due);
  Expected<void> load();

  RoleInit init_;
  std::int32_t topk_ = 1;
  std::chrono::milliseconds delay_{0};
  std::map<std::int64_t, std::pair<Promise<Retrieved>, Retrieved>> delayed_;
  std::int64_t next_delayed_ = 0;
  std::optional<Bm25Index> index_;
};

}  // namespace memopd

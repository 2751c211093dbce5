#include "actors/retriever_actor.hpp"

#include <utility>

#include "actors/role_setup.hpp"
#include "envs/registry.hpp"
#include "envs/retrieval/corpus.hpp"

namespace memopd {

MEMOPD_REGISTER_ACTOR("retriever", RetrieverActor, RoleInit)

Expected<Bm25Index> open_index(const RetrieverConfig& config, const EnvConfig& env) {
  if (!config.index.empty()) {
    return Bm25Index::open(config.index);
  }
  auto documents =
      config.corpus.empty() ? environment_corpus(env.name, environment_options(env)) : load_corpus(config.corpus);
  if (!documents) {
    return unexpected(documents.error());
  }
  return Bm25Index::build(*documents);
}

RetrieverActor::RetrieverActor(RoleInit init) : init_(std::move(init)) {}

void RetrieverActor::setup() {
  on(&RetrieverActor::retrieve);
  on(&RetrieverActor::answer_due);
  if (auto loaded = load(); !loaded) {
    fail(loaded.error());
  }
}

Expected<void> RetrieverActor::load() {
  auto config = load_role_config(init_);
  if (!config) {
    return unexpected(config.error());
  }
  topk_ = config->retriever.topk;
  delay_ = std::chrono::milliseconds(config->retriever.delay_ms);
  auto index = open_index(config->retriever, config->env.front());
  if (!index) {
    return unexpected(index.error());
  }
  index_ = *std::move(index);
  return {};
}

Later<Retrieved> RetrieverActor::retrieve(const Retrieve& request) {
  auto documents = index_->query_batch(request.queries, request.topk > 0 ? request.topk : topk_);
  if (!documents) {
    return unexpected(documents.error());
  }
  Retrieved retrieved{*std::move(documents)};
  if (delay_.count() == 0) {
    return Later<Retrieved>::ready(std::move(retrieved));
  }
  auto promise = make_promise<Retrieved>();
  auto later = promise.later();
  const std::int64_t number = next_delayed_++;
  delayed_.emplace(number, std::pair(std::move(promise), std::move(retrieved)));
  after(delay_, AnswerDue{number});
  return later;
}

void RetrieverActor::answer_due(const AnswerDue& due) {
  auto answer = delayed_.extract(due.number);
  answer.mapped().first.deliver(std::move(answer.mapped().second));
}

}  // namespace memopd

#include "actors/student_actor.hpp"

#include <utility>

#include "actors/role_setup.hpp"
#include "runtime/objects/object_store.hpp"

namespace memopd {

MEMOPD_REGISTER_ACTOR("student", StudentActor, RoleInit)

StudentActor::StudentActor(RoleInit init) : init_(std::move(init)) {}

void StudentActor::setup() {
  on(&StudentActor::generate);
  on(&StudentActor::decode_step);
  on(&StudentActor::load_weights);
  if (auto loaded = load(); !loaded) {
    fail(loaded.error());
  }
}

namespace {

WeightSwap weight_swap_of(const Config& config) {
  if (config.run.mode == "sync") {
    return WeightSwap::refuse;  // weights change between steps, when nothing is in flight
  }
  return config.student.weight_swap == "continue" ? WeightSwap::rebuild : WeightSwap::finish;
}

}  // namespace

Expected<void> StudentActor::load() {
  auto config = load_role_config(init_);
  if (!config) {
    return unexpected(config.error());
  }
  auto tokenizer = load_role_tokenizer(init_);
  if (!tokenizer) {
    return unexpected(tokenizer.error());
  }
  EngineOptions options{config->student.max_sequences, config->student.max_batch_tokens,
                        config->student.max_context_tokens, (*tokenizer)->vocab_size()};
  options.is_deterministic = config->run.is_deterministic;
  options.weight_swap = weight_swap_of(*config);
  auto engine = Engine::create(init_.model, *tokenizer, options);
  if (!engine) {
    return unexpected(engine.error());
  }
  engine_ = *std::move(engine);
  return {};
}

Later<Generated> StudentActor::generate(const Generate& request) {
  const std::uint64_t id = next_request_++;
  if (auto submitted = engine_->submit({id, request.prompt_token_ids, request.sampling, request.stop_strings});
      !submitted) {
    return Later<Generated>::ready(unexpected(submitted.error()));
  }
  auto promise = make_promise<Generated>();
  auto later = promise.later();
  waiting_.emplace(id, std::move(promise));
  if (!is_decoding_) {
    is_decoding_ = true;
    again(DecodeStep{});
  }
  return later;
}

void StudentActor::decode_step(const DecodeStep&) {
  for (GenerateResult& result : engine_->step()) {
    auto node = waiting_.extract(result.request_id);
    node.mapped().deliver(Generated{std::move(result.response_token_ids), std::move(result.rollout_log_probs),
                                    std::move(result.log_kept_mass), std::move(result.policy_versions),
                                    result.finish_reason, result.digest, result.timings});
  }
  is_decoding_ = !engine_->is_idle();
  if (is_decoding_) {
    again(DecodeStep{});
  }
}

Expected<WeightsLoaded> StudentActor::load_weights(const LoadWeights& request) {
  auto weights = objects().get<WeightSet>(request.weights);
  if (!weights) {
    return unexpected(weights.error());
  }
  MEMOPD_RETURN_IF_ERROR(engine_->load_weights(**weights));
  return WeightsLoaded{engine_->policy_version()};
}

}  // namespace memopd

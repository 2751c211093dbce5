#include "actors/student_actor.hpp"

#include <utility>

#include "actors/role_setup.hpp"
#include "runtime/base/log.hpp"
#include "runtime/objects/object_store.hpp"

namespace memopd {

MEMOPD_REGISTER_ACTOR("student", StudentActor, RoleInit)

StudentActor::StudentActor(RoleInit init) : init_(std::move(init)) {}

void StudentActor::setup() {
  on(&StudentActor::generate);
  on(&StudentActor::decode_step);
  on(&StudentActor::load_weights);
  on(&StudentActor::ask_for_weights);
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
  options.prefix_cache_tokens = config->student.prefix_cache_tokens;
  options.weight_swap = weight_swap_of(*config);
  is_sync_ = config->run.mode == "sync";
  ask_timeout_ = std::chrono::seconds(config->run.step_timeout_s);
  auto engine = make_engine(*tokenizer, options);
  if (!engine) {
    return unexpected(engine.error());
  }
  engine_ = *std::move(engine);
  lacks_weights_ = incarnation() > 1 && self().name().starts_with("student/") && cluster().find("coordinator");
  return {};
}

Expected<std::unique_ptr<Engine>> StudentActor::make_engine(const std::shared_ptr<const Tokenizer>& tokenizer,
                                                            const EngineOptions& options) const {
  return Engine::create(init_.model, tokenizer, options);
}

void StudentActor::started() {
  if (lacks_weights_) {
    get_weights();
  }
}

void StudentActor::ask_for_weights(const AskForWeights&) {
  if (lacks_weights_) {
    get_weights();
  }
}

void StudentActor::get_weights() {
  constexpr std::chrono::milliseconds kAskAgain{200};
  const auto coordinator = cluster().find("coordinator");
  ask<WeightsShared>((*coordinator)[0], GetWeights{lost_}, ask_timeout_)
      .then([this](const Expected<WeightsShared>& shared) {
        if (!lacks_weights_) {
          return;  // a publish was faster, and is newer
        }
        if (!shared) {
          // The run goes back: what was asked of us belongs to the part that is given up, and a publish will come.
          refuse_held(shared.error());
          after(kAskAgain, AskForWeights{});
          return;
        }
        const auto loaded = shared->weights != ObjectRef{} ? load_now(shared->weights) : Expected<void>();
        if (loaded) {
          log_info("student", "weights_fetched",
                   {{"actor", self().name()}, {"policy_version", engine_->policy_version()}});
          release_held();
        } else if (loaded.error().code == ErrorCode::not_found) {
          lost_ = shared->weights;
          get_weights();  // newer ones have been published meanwhile, or these are lost
        } else {
          fail(loaded.error());
        }
      });
}

void StudentActor::refuse_held(const Error& error) {
  for (auto& [request, answer] : std::exchange(held_, {})) {
    answer.deliver(unexpected(ErrorCode::refused, self().name() + " has no weights: " + error.message));
  }
}

void StudentActor::release_held() {
  lacks_weights_ = false;
  for (auto& [request, answer] : std::exchange(held_, {})) {
    submit(request, std::move(answer));
  }
}

Later<Generated> StudentActor::generate(const Generate& request) {
  auto promise = make_promise<Generated>();
  auto later = promise.later();
  if (lacks_weights_) {
    held_.emplace_back(request, std::move(promise));
  } else {
    submit(request, std::move(promise));
  }
  return later;
}

void StudentActor::submit(const Generate& request, Promise<Generated> answer) {
  const std::uint64_t id = next_request_++;
  if (auto submitted = engine_->submit({id, request.prompt_token_ids, request.sampling, request.stop_strings});
      !submitted) {
    answer.deliver(unexpected(submitted.error()));
    return;
  }
  waiting_.emplace(id, std::move(answer));
  if (!is_decoding_) {
    is_decoding_ = true;
    again(DecodeStep{});
  }
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
  MEMOPD_RETURN_IF_ERROR(load_now(request.weights));
  release_held();
  return WeightsLoaded{engine_->policy_version()};
}

Expected<void> StudentActor::load_now(const ObjectRef& reference) {
  auto weights = objects().get<WeightSet>(reference);
  if (!weights) {
    return unexpected(weights.error());
  }
  const std::pair loading((*weights)->lineage, (*weights)->policy_version);
  if (is_sync_ && loaded_ != loading) {
    for (const auto& [id, answer] : waiting_) {
      engine_->abort(id);
    }
  }
  MEMOPD_RETURN_IF_ERROR(engine_->load_weights(**weights));
  loaded_ = loading;
  return {};
}

}  // namespace memopd

#include "policies/engine/engine.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/log_softmax.h>

#include <catch2/catch.hpp>
#include <limits>
#include <map>

#include "policies/text/tokenizer.hpp"
#include "tests/unit/policies/engine/engine_fixture.hpp"
#include "tests/unit/policies/text/toy_tokenizers.hpp"

using namespace memopd;
using namespace memopd::testing;

namespace {

/// Log-probs of the response by the packed forward that trains.
std::vector<float> packed_log_probs(const Transformer& model, const GenerateRequest& call, const GenerateResult& result,
                                    double temperature) {
  const auto tensors = to_tensors(pack_of({invocation(call.prompt_token_ids, result.response_token_ids)})).value();
  const at::Tensor rows = model.hidden(tensors).index_select(0, tensors.response_index);
  const at::Tensor picked =
      at::log_softmax(model.logits(rows) / temperature, 1).gather(1, tensors.response_token_ids.unsqueeze(1));
  const at::Tensor flat = picked.contiguous().view(-1);
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

void check_close(const std::vector<float>& found, const std::vector<float>& expected, float tolerance) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::abs(found[i] - expected[i]) <= tolerance);
}

}  // namespace

TEST_CASE("the engine's log-probs are those of the packed forward", "[engine][AP-5][pain:T07]") {
  EngineFixture fixture({.max_context_tokens = 64}, tiny_config(GENERATE("qwen2", "qwen3", "llama")));
  for (const GenerateRequest& call : some_requests()) {
    const GenerateResult result = fixture.alone(call);
    const double t = call.sampling.temperature == 0 ? 1.0 : call.sampling.temperature;
    CHECK(result.finish_reason == FinishReason::length);
    CHECK(result.response_token_ids.size() == static_cast<std::size_t>(call.sampling.max_response_tokens));
    check_close(result.rollout_log_probs, packed_log_probs(fixture.model, call, result, t), 1e-5f);
    CHECK(result.log_kept_mass.size() == (call.sampling.top_p < 1 ? result.response_token_ids.size() : 0));
  }
}

TEST_CASE("a request gives the same ids alone and among others, with more requests than slots", "[engine]") {
  EngineFixture fixture({.max_sequences = 2, .max_batch_tokens = 4, .max_context_tokens = 64});
  std::map<std::uint64_t, GenerateResult> alone;
  for (const GenerateRequest& call : some_requests()) alone[call.request_id] = fixture.alone(call);
  for (const GenerateRequest& call : some_requests()) REQUIRE(fixture.engine->submit(call));
  CHECK(fixture.engine->counters().num_waiting == 5);
  const auto together = fixture.drain();

  REQUIRE(together.size() == 5);
  for (const auto& [id, result] : together) {
    CHECK(result.response_token_ids == alone[id].response_token_ids);
    check_close(result.rollout_log_probs, alone[id].rollout_log_probs, 1e-5f);
  }
}

TEST_CASE("a request does not depend on when it is admitted", "[engine]") {
  EngineFixture fixture({.max_sequences = 4, .max_context_tokens = 64});
  const auto calls = some_requests();
  const GenerateResult alone = fixture.alone(calls[1]);
  REQUIRE(fixture.engine->submit(calls[0]));
  static_cast<void>(fixture.engine->step());
  static_cast<void>(fixture.engine->step());
  REQUIRE(fixture.engine->submit(calls[1]));  // joins while another is in the middle of its response

  CHECK(fixture.drain().at(2).response_token_ids == alone.response_token_ids);
}

TEST_CASE("a response's digest is that of its tokens as a packed forward feeds them", "[engine][AP-6]") {
  EngineFixture fixture({.max_sequences = 2, .max_batch_tokens = 4, .max_context_tokens = 64});
  for (const GenerateRequest& call : some_requests()) REQUIRE(fixture.engine->submit(call));
  const auto results = fixture.drain();

  for (const GenerateRequest& call : some_requests()) {
    const Invocation served = invocation(call.prompt_token_ids, results.at(call.request_id).response_token_ids);
    CHECK(results.at(call.request_id).digest == aligned_digest(served));
    CHECK(results.at(call.request_id).digest == pack_digests(pack_of({served})).front());
  }
}

TEST_CASE("the seed decides the response", "[engine]") {
  EngineFixture fixture({.max_sequences = 1, .max_context_tokens = 64});
  const auto ids = [&](std::uint64_t seed) {
    return fixture.alone(request(1, {3, 4}, {.max_response_tokens = 20, .seed = seed})).response_token_ids;
  };
  CHECK(ids(5) == ids(5));
  CHECK(ids(5) != ids(6));
}

TEST_CASE("only ids below scored_vocab are sampled, over which log-probs are normalised", "[engine][pain:T14]") {
  EngineFixture fixture({.max_context_tokens = 64, .scored_vocab = 3});
  const GenerateRequest call = request(1, {20, 21}, {.temperature = 5, .max_response_tokens = 40, .seed = 3});
  const GenerateResult result = fixture.alone(call);

  for (const std::int32_t id : result.response_token_ids) CHECK(id < 3);
  const auto tensors = to_tensors(pack_of({invocation({20, 21}, {result.response_token_ids[0]})})).value();
  const at::Tensor rows = fixture.model.hidden(tensors).index_select(0, tensors.response_index);
  const at::Tensor first = at::log_softmax(fixture.model.logits(rows).narrow(1, 0, 3) / 5.0, 1);
  CHECK(result.rollout_log_probs[0] == Approx(first[0][result.response_token_ids[0]].item<float>()).margin(1e-5));
}

TEST_CASE("a response ends where its stop string is completed, inside a token too", "[engine][pain:T07]") {
  const auto tokenizer = toy_tokenizer();
  ModelConfig config = tiny_config();
  config.vocab_size = tokenizer->vocab_size();
  EngineFixture fixture({.max_context_tokens = 64}, config, tokenizer);
  GenerateRequest call = request(1, {3}, {.temperature = 20, .max_response_tokens = 60, .seed = 4});
  const auto free_ids = fixture.alone(call).response_token_ids;
  std::size_t place = 1;  // the first token of several bytes: the stop string is to end after its first one
  while (place < free_ids.size() && tokenizer->token_bytes(free_ids[place]).size() < 2) ++place;
  REQUIRE(place < free_ids.size());
  const std::string before(tokenizer->token_bytes(free_ids[place - 1]));
  call.stop_strings = {"never", before + std::string(tokenizer->token_bytes(free_ids[place]).substr(0, 1))};

  const GenerateResult stopped = fixture.alone(call);

  CHECK(stopped.finish_reason == FinishReason::stop);
  CHECK(stopped.response_token_ids ==
        std::vector<std::int32_t>(free_ids.begin(), free_ids.begin() + static_cast<std::ptrdiff_t>(place) + 1));
}

TEST_CASE("a response ends with the end-of-sequence id of the model or the tokenizer", "[engine]") {
  EngineFixture plain;
  const GenerateRequest call = request(1, {3, 4}, {.max_response_tokens = 20, .seed = 5});
  const auto ids = plain.alone(call).response_token_ids;
  ModelConfig config = tiny_config();
  config.eos_token_ids = {ids[2]};
  EngineFixture ending({.max_context_tokens = 64}, config);

  const GenerateResult result = ending.alone(call);

  CHECK(result.finish_reason == FinishReason::eos);
  CHECK(result.response_token_ids.back() == ids[2]);
  CHECK(result.response_token_ids.size() <= 3);
}

TEST_CASE("the context limit ends a response", "[engine]") {
  EngineFixture fixture({.max_context_tokens = 5});
  const GenerateResult result = fixture.alone(request(1, {3, 4, 5}, {.max_response_tokens = 20}));

  CHECK(result.finish_reason == FinishReason::length);
  CHECK(result.response_token_ids.size() == 2);
  CHECK(fixture.engine->submit(request(2, {1, 2, 3, 4, 5}, {})).error().code == ErrorCode::invocation_too_long);
}

TEST_CASE("an aborted request comes back with what it has, and frees its slot", "[engine]") {
  EngineFixture fixture({.max_sequences = 1, .max_context_tokens = 64});
  REQUIRE(fixture.engine->submit(request(1, {3}, {.max_response_tokens = 50})));
  REQUIRE(fixture.engine->submit(request(2, {4}, {.max_response_tokens = 50})));
  REQUIRE(fixture.engine->submit(request(3, {5}, {.max_response_tokens = 2})));
  static_cast<void>(fixture.engine->step());
  fixture.engine->abort(1);   // active
  fixture.engine->abort(2);   // waiting
  fixture.engine->abort(99);  // unknown
  CHECK_FALSE(fixture.engine->is_idle());
  const auto results = fixture.drain();

  CHECK(results.at(1).finish_reason == FinishReason::aborted);
  CHECK(results.at(1).response_token_ids.size() == 2);  // one by the prompt, one by the decode step
  CHECK(results.at(2).response_token_ids.empty());
  CHECK(results.at(1).digest == Digest{});
  CHECK(results.at(3).digest != Digest{});
  CHECK(results.at(3).response_token_ids.size() == 2);
  CHECK(fixture.engine->counters().aborted_requests == 2);
  CHECK(fixture.engine->counters().finished_requests == 3);
}

TEST_CASE("an id may be used again once its result is handed out, not before", "[engine][error]") {
  EngineFixture fixture;
  REQUIRE(fixture.engine->submit(request(1, {3}, {.max_response_tokens = 1})));
  CHECK(fixture.engine->submit(request(1, {3}, {})).error().code == ErrorCode::already_exists);
  fixture.drain();
  CHECK(fixture.engine->submit(request(1, {3}, {})));
}

TEST_CASE("after a swap every token is the new weights', as in a cold engine", "[engine][pain:T20][pain:T21]") {
  EngineFixture fixture;
  const GenerateRequest call = request(1, {3, 4, 5}, {.max_response_tokens = 10, .seed = 2});
  const GenerateResult old_result = fixture.alone(call);
  const Transformer next = tiny_model(fixture.config, 77);
  const WeightSet weights = to_weight_set(next, 1, 6);

  REQUIRE(fixture.engine->load_weights(weights));
  const GenerateResult warm = fixture.alone(call);

  CHECK((old_result.policy_versions == std::vector<VersionRun>{{0, 10}}));
  CHECK((warm.policy_versions == std::vector<VersionRun>{{6, 10}}));
  CHECK(fixture.engine->policy_version() == 6);
  CHECK(fixture.engine->lineage() == 1);
  CHECK(fixture.engine->weight_fingerprint() == weight_fingerprint(weights));
  REQUIRE(save_transformer(fixture.folder.path(), next));
  const auto cold = Engine::create(fixture.folder.path(), nullptr, {.max_context_tokens = 64}).value();
  REQUIRE(cold->submit(call));
  std::vector<GenerateResult> results;
  while (!cold->is_idle()) {
    for (GenerateResult& result : cold->step()) results.push_back(std::move(result));
  }
  CHECK(warm.response_token_ids == results.at(0).response_token_ids);
  CHECK(warm.rollout_log_probs == results.at(0).rollout_log_probs);
  CHECK(warm.response_token_ids != old_result.response_token_ids);
}

TEST_CASE("weights are refused while a request is active, and when they do not fit", "[engine][pain:T21][error]") {
  EngineFixture fixture;
  WeightSet weights = to_weight_set(fixture.model, 0, 1);
  REQUIRE(fixture.engine->submit(request(1, {3}, {.max_response_tokens = 5})));
  CHECK(fixture.engine->load_weights(weights));  // waiting requests have computed nothing yet
  static_cast<void>(fixture.engine->step());
  weights.policy_version = 2;
  const auto refused = fixture.engine->load_weights(weights);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::refused);
  CHECK((fixture.drain().at(1).policy_versions == std::vector<VersionRun>{{1, 5}}));
  weights.tensors.pop_back();
  CHECK(fixture.engine->load_weights(weights).error().code == ErrorCode::shape_mismatch);
  CHECK(fixture.engine->policy_version() == 1);
}

TEST_CASE("weights that come again change nothing, a lower version of a new lineage is loaded", "[engine][CL-3]") {
  EngineFixture fixture;
  const WeightSet later = to_weight_set(tiny_model(fixture.config, 9), 0, 2);
  REQUIRE(fixture.engine->load_weights(later));
  REQUIRE(fixture.engine->submit(request(1, {3}, {.max_response_tokens = 5})));
  static_cast<void>(fixture.engine->step());
  CHECK(fixture.engine->load_weights(later));  // active requests go on
  CHECK(fixture.engine->counters().weight_loads == 1);
  CHECK((fixture.drain().at(1).policy_versions == std::vector<VersionRun>{{2, 5}}));

  REQUIRE(fixture.engine->load_weights(to_weight_set(fixture.model, 1, 1)));

  CHECK(fixture.engine->policy_version() == 1);
  CHECK(fixture.engine->lineage() == 1);
  CHECK(
      (fixture.alone(request(2, {3}, {.max_response_tokens = 5})).policy_versions == std::vector<VersionRun>{{1, 5}}));
}

TEST_CASE("logits that are not finite end their request only, counted", "[engine][error]") {
  EngineFixture fixture;
  Transformer poisoned = fixture.model.clone();
  poisoned.embedding().select(0, 23).fill_(std::numeric_limits<float>::quiet_NaN());
  // Head and embedding are one: keep the poisoned row out of the scored ids, so that only who reads it is hit.
  const auto engine = [&] {
    REQUIRE(save_transformer(fixture.folder.path(), poisoned));
    return Engine::create(fixture.folder.path(), nullptr, {.max_context_tokens = 64, .scored_vocab = 23}).value();
  }();
  REQUIRE(engine->submit(request(1, {3, 23, 4}, {.max_response_tokens = 5})));
  REQUIRE(engine->submit(request(2, {3, 4}, {.max_response_tokens = 5})));
  std::map<std::uint64_t, GenerateResult> results;
  while (!engine->is_idle()) {
    for (GenerateResult& result : engine->step()) results[result.request_id] = std::move(result);
  }

  CHECK(results.at(1).finish_reason == FinishReason::aborted);
  CHECK(results.at(1).response_token_ids.empty());
  CHECK(results.at(2).finish_reason == FinishReason::length);
  CHECK(engine->counters().non_finite_requests == 1);
}

TEST_CASE("options outside the model are refused", "[engine][error]") {
  const TemporaryFolder folder("engine_bad");
  REQUIRE(save_transformer(folder.path(), tiny_model()));
  const auto code = [&](const EngineOptions& options) {
    return Engine::create(folder.path(), nullptr, options).error().code;
  };
  CHECK(code({.max_sequences = 0, .max_context_tokens = 64}) == ErrorCode::invalid_argument);
  CHECK(code({.max_batch_tokens = 0, .max_context_tokens = 64}) == ErrorCode::invalid_argument);
  CHECK(code({.max_context_tokens = 65}) == ErrorCode::invalid_argument);
  CHECK(code({.max_context_tokens = 64, .max_weight_generations = 0}) == ErrorCode::invalid_argument);
  CHECK(code({.max_context_tokens = 64, .prefix_cache_tokens = -1}) == ErrorCode::invalid_argument);
  CHECK(code({.max_context_tokens = 64, .scored_vocab = 25}) == ErrorCode::invalid_argument);
  CHECK(Engine::create(folder.path() / "absent", nullptr, {}).error().code == ErrorCode::not_found);
}

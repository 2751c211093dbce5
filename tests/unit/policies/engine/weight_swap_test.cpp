// New weights while requests are in flight: which weights sample which token, and that no cache is read by other weights
// than those that computed it.
#include <catch2/catch.hpp>

#include "policies/text/tokenizer.hpp"
#include "tests/unit/policies/engine/engine_fixture.hpp"
#include "tests/unit/policies/text/toy_tokenizers.hpp"

using namespace memopd;
using namespace memopd::testing;

namespace {

using Versions = std::vector<VersionRun>;

/// Weights of `version`, different for each.
WeightSet weights_of(const ModelConfig& config, std::int64_t version) {
  return to_weight_set(tiny_model(config, 100 + static_cast<std::uint64_t>(version)), 0, version);
}

/// What an engine that never had other weights than those of `version` answers.
GenerateResult cold(const ModelConfig& config, std::int64_t version, const GenerateRequest& call) {
  EngineFixture fixture({.max_context_tokens = 64}, config);
  REQUIRE(fixture.engine->load_weights(weights_of(config, version)));
  return fixture.alone(call);
}

GenerateRequest greedy(std::uint64_t id, std::vector<std::int32_t> prompt, std::int32_t num_tokens) {
  return request(id, std::move(prompt), {.temperature = 0, .max_response_tokens = num_tokens});
}

void load(EngineFixture& fixture, std::int64_t version) {
  REQUIRE(fixture.engine->load_weights(weights_of(fixture.config, version)));
}

void step(EngineFixture& fixture) { REQUIRE(fixture.engine->step().empty()); }

void check_same(const GenerateResult& found, const GenerateResult& expected) {
  CHECK(found.response_token_ids == expected.response_token_ids);
  CHECK(found.policy_versions == expected.policy_versions);
  REQUIRE(found.rollout_log_probs.size() == expected.rollout_log_probs.size());
  for (std::size_t i = 0; i < expected.rollout_log_probs.size(); ++i) {
    CHECK(found.rollout_log_probs[i] == Approx(expected.rollout_log_probs[i]).margin(1e-5));
  }
}

/// Every run of one version in `found` (greedy) is what a cold engine of that version adds to the tokens before it.
void check_runs_against_cold_engines(const EngineFixture& fixture, const GenerateRequest& call,
                                     const GenerateResult& found) {
  std::vector<std::int32_t> prompt = call.prompt_token_ids;
  std::size_t begin = 0;
  for (const auto& [version, count] : found.policy_versions) {
    const GenerateResult expected = cold(fixture.config, version, greedy(1, prompt, count));
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      CHECK(found.response_token_ids[begin + i] == expected.response_token_ids[i]);
      CHECK(found.rollout_log_probs[begin + i] == Approx(expected.rollout_log_probs[i]).margin(1e-5));
      prompt.push_back(expected.response_token_ids[i]);
    }
    begin += static_cast<std::size_t>(count);
  }
  CHECK(begin == found.response_token_ids.size());
}

constexpr WeightSwap kBoth[] = {WeightSwap::finish, WeightSwap::rebuild};

}  // namespace

TEST_CASE("finish: who is in flight ends on its weights, who comes later starts on the new",
          "[engine][RL-3][pain:T21]") {
  EngineFixture fixture({.max_context_tokens = 64, .weight_swap = WeightSwap::finish});
  const auto calls = some_requests();
  load(fixture, 1);
  REQUIRE(fixture.engine->submit(calls[0]));
  step(fixture);
  load(fixture, 2);
  REQUIRE(fixture.engine->submit(calls[1]));
  step(fixture);
  CHECK(fixture.engine->counters().num_weight_generations == 2);
  load(fixture, 3);
  REQUIRE(fixture.engine->submit(calls[4]));
  step(fixture);
  CHECK(fixture.engine->counters().num_weight_generations == 3);
  const auto results = fixture.drain();

  check_same(results.at(1), cold(fixture.config, 1, calls[0]));
  check_same(results.at(2), cold(fixture.config, 2, calls[1]));
  check_same(results.at(5), cold(fixture.config, 3, calls[4]));
  CHECK(fixture.engine->counters().num_weight_generations == 1);
  CHECK(fixture.engine->counters().rebuilt_sequences == 0);
  CHECK(fixture.engine->policy_version() == 3);
}

TEST_CASE("rebuild: a token after the swap is what the new weights say of all tokens before it",
          "[engine][RL-3][pain:T21]") {
  EngineFixture fixture({.max_context_tokens = 64, .weight_swap = WeightSwap::rebuild});
  const std::vector<GenerateRequest> calls = {greedy(1, {3}, 9), greedy(2, {4, 5, 6, 7}, 12), greedy(3, {8, 9}, 5)};
  load(fixture, 1);
  REQUIRE(fixture.engine->submit(calls[0]));
  REQUIRE(fixture.engine->submit(calls[1]));
  step(fixture);  // the prompt's token and one more
  load(fixture, 2);
  REQUIRE(fixture.engine->submit(calls[2]));
  step(fixture);
  const auto results = fixture.drain();

  CHECK(results.at(1).policy_versions == Versions{{1, 2}, {2, 7}});
  CHECK(results.at(2).policy_versions == Versions{{1, 2}, {2, 10}});
  CHECK(results.at(3).policy_versions == Versions{{2, 5}});
  for (const GenerateRequest& call : calls) {
    check_runs_against_cold_engines(fixture, call, results.at(call.request_id));
    const auto served = invocation(call.prompt_token_ids, results.at(call.request_id).response_token_ids);
    CHECK(results.at(call.request_id).digest == aligned_digest(served));
  }
  CHECK(fixture.engine->counters().rebuilt_sequences == 2);
  CHECK(fixture.engine->counters().num_weight_generations == 1);
}

TEST_CASE("two swaps without a step between leave no token to the weights in the middle", "[engine][RL-3]") {
  EngineFixture fixture({.max_context_tokens = 64, .weight_swap = WeightSwap::rebuild});
  const GenerateRequest call = greedy(1, {3, 4}, 6);
  load(fixture, 1);
  REQUIRE(fixture.engine->submit(call));
  step(fixture);
  load(fixture, 2);
  load(fixture, 3);
  const GenerateResult result = fixture.drain().at(1);

  CHECK(result.policy_versions == Versions{{1, 2}, {3, 4}});
  check_runs_against_cold_engines(fixture, call, result);
  CHECK(fixture.engine->counters().rebuilt_sequences == 1);
}

TEST_CASE("finish keeps no more generations than allowed: the oldest requests go on with the newest weights",
          "[engine][RL-3][pain:T21]") {
  EngineFixture fixture({.max_context_tokens = 64, .weight_swap = WeightSwap::finish, .max_weight_generations = 2});
  const std::vector<GenerateRequest> calls = {greedy(1, {3}, 14), greedy(2, {4, 5}, 12), greedy(3, {6, 7}, 10)};
  for (std::int64_t version = 1; version <= 3; ++version) {
    load(fixture, version);
    REQUIRE(fixture.engine->submit(calls[static_cast<std::size_t>(version - 1)]));
    step(fixture);
    CHECK(fixture.engine->counters().num_weight_generations == std::min<std::int64_t>(version, 2));
  }
  const auto results = fixture.drain();

  CHECK(results.at(1).policy_versions == Versions{{1, 3}, {3, 11}});
  CHECK(results.at(2).policy_versions == Versions{{2, 12}});
  CHECK(results.at(3).policy_versions == Versions{{3, 10}});
  for (const GenerateRequest& call : calls) {
    check_runs_against_cold_engines(fixture, call, results.at(call.request_id));
  }
  CHECK(fixture.engine->counters().rebuilt_sequences == 1);
}

TEST_CASE("a swap between requests, or while all wait, keeps one generation", "[engine][RL-3]") {
  for (const WeightSwap swap : kBoth) {
    EngineFixture fixture({.max_context_tokens = 64, .weight_swap = swap});
    load(fixture, 1);
    REQUIRE(fixture.engine->submit(some_requests()[1]));
    load(fixture, 2);
    check_same(fixture.drain().at(2), cold(fixture.config, 2, some_requests()[1]));
    load(fixture, 3);
    check_same(fixture.alone(some_requests()[0]), cold(fixture.config, 3, some_requests()[0]));
    CHECK(fixture.engine->counters().rebuilt_sequences == 0);
    CHECK(fixture.engine->counters().num_weight_generations == 1);
  }
}

TEST_CASE("nothing hangs with one slot, batches of one token and a swap in every step", "[engine][RL-3][pain:T22]") {
  for (const WeightSwap swap : kBoth) {
    EngineFixture fixture({.max_sequences = 1, .max_batch_tokens = 1, .max_context_tokens = 64, .weight_swap = swap});
    for (const GenerateRequest& call : some_requests()) REQUIRE(fixture.engine->submit(call));
    std::map<std::uint64_t, GenerateResult> results;
    for (std::int64_t version = 1; version < 200 && !fixture.engine->is_idle(); ++version) {
      load(fixture, version);
      for (GenerateResult& result : fixture.engine->step()) results[result.request_id] = std::move(result);
    }
    REQUIRE(results.size() == 5);
    for (const GenerateRequest& call : some_requests()) {
      const GenerateResult& result = results.at(call.request_id);
      CHECK(result.response_token_ids.size() == static_cast<std::size_t>(call.sampling.max_response_tokens));
      CHECK((result.policy_versions.size() == 1) == (swap == WeightSwap::finish));
    }
  }
}

TEST_CASE("rebuilding more tokens than one batch holds takes several steps and loses no request",
          "[engine][RL-3][pain:T21]") {
  EngineFixture fixture({.max_batch_tokens = 6, .max_context_tokens = 64, .weight_swap = WeightSwap::rebuild});
  const std::vector<GenerateRequest> calls = {greedy(1, {3, 4, 5}, 8), greedy(2, {6, 7, 8}, 8),
                                              greedy(3, {9, 1, 2}, 8)};
  load(fixture, 1);
  for (const GenerateRequest& call : calls) REQUIRE(fixture.engine->submit(call));
  step(fixture);
  step(fixture);
  CHECK(fixture.engine->counters().num_active == 3);
  load(fixture, 2);
  step(fixture);  // one of the three fits
  load(fixture, 3);
  const auto results = fixture.drain();

  REQUIRE(results.size() == 3);
  for (const GenerateRequest& call : calls) {
    check_runs_against_cold_engines(fixture, call, results.at(call.request_id));
  }
}

TEST_CASE("a stop string is found across a swap", "[engine][RL-3][pain:T07]") {
  const auto tokenizer = toy_tokenizer();
  ModelConfig config = tiny_config();
  config.vocab_size = tokenizer->vocab_size();
  for (const WeightSwap swap : kBoth) {
    EngineFixture fixture({.max_context_tokens = 64, .weight_swap = swap}, config, tokenizer);
    const auto same_weights = [&](std::int64_t version) { return to_weight_set(fixture.model, 0, version); };
    GenerateRequest call = request(1, {3}, {.temperature = 20, .max_response_tokens = 30, .seed = 4});
    const auto free_ids = fixture.alone(call).response_token_ids;
    REQUIRE(free_ids.size() > 4);
    // Tokens 1 and 2: the swap falls between them.
    call.stop_strings = {std::string(tokenizer->token_bytes(free_ids[1])) +
                         std::string(tokenizer->token_bytes(free_ids[2]))};
    REQUIRE(fixture.engine->load_weights(same_weights(1)));
    REQUIRE(fixture.engine->submit(call));
    step(fixture);
    REQUIRE(fixture.engine->load_weights(same_weights(2)));
    const GenerateResult stopped = fixture.drain().at(1);

    CHECK(stopped.finish_reason == FinishReason::stop);
    CHECK(stopped.response_token_ids == std::vector<std::int32_t>(free_ids.begin(), free_ids.begin() + 3));
    CHECK(stopped.policy_versions == (swap == WeightSwap::finish ? Versions{{1, 3}} : Versions{{1, 2}, {2, 1}}));
  }
}

TEST_CASE("weights that do not fit leave requests in flight as they were", "[engine][error][pain:T21]") {
  for (const WeightSwap swap : kBoth) {
    EngineFixture fixture({.max_context_tokens = 64, .weight_swap = swap});
    load(fixture, 1);
    REQUIRE(fixture.engine->submit(some_requests()[1]));
    step(fixture);
    WeightSet broken = weights_of(fixture.config, 2);
    broken.tensors.pop_back();
    CHECK(fixture.engine->load_weights(broken).error().code == ErrorCode::shape_mismatch);
    CHECK(fixture.engine->counters().num_weight_generations == 1);
    check_same(fixture.drain().at(2), cold(fixture.config, 1, some_requests()[1]));
  }
}

TEST_CASE("a request given up between a swap and its rebuild comes back with its tokens", "[engine][RL-3]") {
  EngineFixture fixture({.max_sequences = 1, .max_context_tokens = 64, .weight_swap = WeightSwap::rebuild});
  load(fixture, 1);
  REQUIRE(fixture.engine->submit(some_requests()[1]));
  REQUIRE(fixture.engine->submit(some_requests()[0]));
  step(fixture);
  load(fixture, 2);
  fixture.engine->abort(2);
  const auto results = fixture.drain();

  CHECK(results.at(2).finish_reason == FinishReason::aborted);
  CHECK(results.at(2).policy_versions == Versions{{1, 2}});
  check_same(results.at(1), cold(fixture.config, 2, some_requests()[0]));
}

// What a request finds computed already changes what it costs, never what it answers.
#include "policies/engine/prefix_cache.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/policies/engine/engine_fixture.hpp"

using namespace memopd;
using namespace memopd::testing;

namespace {

using Ids = std::vector<std::int32_t>;

EngineOptions deterministic(std::int32_t max_sequences, std::int32_t max_batch_tokens, std::int32_t prefix_tokens) {
  return {.max_sequences = max_sequences,
          .max_batch_tokens = max_batch_tokens,
          .max_context_tokens = 256,
          .is_deterministic = true,
          .prefix_cache_tokens = prefix_tokens};
}

Ids random_ids(std::uint64_t seed, std::size_t count) {
  SplitMix random(seed);
  Ids ids(count);
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random.below(500));
  return ids;
}

/// Calls of trajectories: all share instructions, those of a group a question, a call continues the one before it.
std::vector<GenerateRequest> trajectory_calls() {
  std::vector<GenerateRequest> calls;
  const Ids instructions = random_ids(1, 40);
  for (std::uint64_t trajectory = 0; trajectory < 12; ++trajectory) {
    Ids prompt = instructions;
    const Ids question = random_ids(10 + trajectory / 4, 25);
    prompt.insert(prompt.end(), question.begin(), question.end());
    for (std::uint64_t call = 0; call < 3; ++call) {
      const std::uint64_t id = trajectory * 3 + call;
      calls.push_back(request(id, prompt, {.max_response_tokens = static_cast<std::int32_t>(3 + id % 7), .seed = id}));
      const Ids observation = random_ids(100 + id, 21);
      prompt.insert(prompt.end(), observation.begin(), observation.end());
    }
  }
  return calls;
}

using Results = std::map<std::uint64_t, GenerateResult>;

Results run(EngineFixture& fixture, const std::vector<GenerateRequest>& calls) {
  for (const GenerateRequest& call : calls) REQUIRE(fixture.engine->submit(call));
  return fixture.drain();
}

void check_same_bits(const Results& found, const Results& expected) {
  REQUIRE(found.size() == expected.size());
  for (const auto& [id, result] : found) {
    CHECK(result.response_token_ids == expected.at(id).response_token_ids);
    CHECK(result.rollout_log_probs == expected.at(id).rollout_log_probs);
  }
}

void store(KvCache& cache, std::int32_t slot, const Ids& ids) {
  const float row[] = {0, 0};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto position = static_cast<std::int32_t>(i);
    cache.store(0, slot, position, {.id = ids[i], .position = position}, row, row);
  }
}

}  // namespace

TEST_CASE("the slot with the longest common prefix is found, under equal weights and as far as it is held",
          "[prefix_cache][pain:T21]") {
  KvCache cache({.num_layers = 1, .num_slots = 3, .num_kv_heads = 1, .head_dim = 2, .max_context_tokens = 4});
  PrefixCache prefixes(cache, 3);
  store(cache, 0, {1, 2, 9, 9});
  store(cache, 1, {1, 2, 3, 9});
  store(cache, 2, {1, 2, 3, 4});
  prefixes.hold(0, 5, 4);
  prefixes.hold(1, 5, 4);
  prefixes.hold(2, 6, 4);
  const Ids wanted = {1, 2, 3, 4};

  CHECK(prefixes.find(wanted, 5).slot == 1);
  CHECK(prefixes.find(wanted, 5).num_tokens == 3);
  CHECK(prefixes.find(wanted, 6).num_tokens == 4);
  CHECK(prefixes.find(wanted, 7).num_tokens == 0);
  CHECK(prefixes.find(Ids{2, 2}, 5).num_tokens == 0);
  prefixes.hold(1, 5, 1);
  CHECK(prefixes.find(wanted, 5).slot == 0);
  CHECK(prefixes.find(wanted, 5).num_tokens == 2);
}

TEST_CASE("an entry of an equal id at another position is not found", "[prefix_cache]") {
  KvCache cache({.num_layers = 1, .num_slots = 1, .num_kv_heads = 1, .head_dim = 2, .max_context_tokens = 4});
  PrefixCache prefixes(cache, 1);
  const float row[] = {0, 0};
  cache.store(0, 0, 0, {.id = 1, .position = 1}, row, row);
  prefixes.hold(0, 0, 1);

  CHECK(prefixes.find(Ids{1}, 0).num_tokens == 0);
}

TEST_CASE("deterministic: warm, cold and in parts, a request has equal bits and an aligned digest",
          "[engine][RL-7][AP-6][pain:T10]") {
  const auto calls = trajectory_calls();
  EngineFixture cold(deterministic(4, 8192, 0), wide_config());
  const Results expected = run(cold, calls);
  CHECK(cold.engine->counters().prefix_hit_tokens == 0);

  for (const std::int32_t max_batch_tokens : {7, 100, 8192}) {
    for (const std::int32_t prefix_tokens : {1, 4096}) {
      EngineFixture warm(deterministic(4, max_batch_tokens, prefix_tokens), wide_config());
      for (int repeat = 0; repeat < 2; ++repeat) {
        const Results results = run(warm, calls);
        check_same_bits(results, expected);
        for (const GenerateRequest& call : calls) {
          const GenerateResult& result = results.at(call.request_id);
          CHECK(result.digest == aligned_digest(invocation(call.prompt_token_ids, result.response_token_ids)));
        }
      }
      const EngineCounters counters = warm.engine->counters();
      CHECK(counters.prefix_hit_tokens > counters.prefill_tokens / 2);
      CHECK(counters.prefix_hit_tokens + counters.prefill_tokens == 2 * cold.engine->counters().prefill_tokens);
    }
  }
}

TEST_CASE("what many trajectories share is computed once, though they are admitted together", "[engine]") {
  EngineFixture fixture(deterministic(8, 8192, 256), wide_config());
  const Ids question = random_ids(3, 100);
  for (std::uint64_t id = 0; id < 8; ++id) {
    REQUIRE(fixture.engine->submit(request(id, question, {.max_response_tokens = 2, .seed = id})));
  }
  static_cast<void>(fixture.engine->step());

  CHECK(fixture.engine->counters().prefill_tokens == 100 + 7);  // the last token of each is computed
  CHECK(fixture.engine->counters().prefix_hit_tokens == 7 * 99);
}

TEST_CASE("a warm prefix is not read by weights that did not compute it", "[engine][pain:T21]") {
  EngineFixture fixture(deterministic(2, 8192, 1024), wide_config());
  const GenerateRequest call = request(1, random_ids(4, 90), {.max_response_tokens = 10, .seed = 2});
  const GenerateResult old_result = fixture.alone(call);
  REQUIRE(fixture.alone(call).rollout_log_probs == old_result.rollout_log_probs);
  REQUIRE(fixture.engine->counters().prefix_hit_tokens == 89);
  const WeightSet weights = to_weight_set(tiny_model(fixture.config, 77), 0, 1);
  EngineFixture cold(deterministic(2, 8192, 0), wide_config());
  REQUIRE(cold.engine->load_weights(weights));

  REQUIRE(fixture.engine->load_weights(weights));
  const GenerateResult warm = fixture.alone(call);

  CHECK(fixture.engine->counters().prefix_hit_tokens == 89);
  CHECK(warm.rollout_log_probs == cold.alone(call).rollout_log_probs);
  CHECK(warm.rollout_log_probs != old_result.rollout_log_probs);
}

TEST_CASE("a version that comes again in a new lineage finds nothing of the old one", "[engine][CL-3][pain:T21]") {
  EngineFixture fixture(deterministic(2, 8192, 1024), wide_config());
  const GenerateRequest call = request(1, random_ids(4, 90), {.max_response_tokens = 10, .seed = 2});
  const WeightSet first = to_weight_set(tiny_model(fixture.config, 77), 0, 1);
  REQUIRE(fixture.engine->load_weights(first));
  const GenerateResult old_result = fixture.alone(call);
  REQUIRE(fixture.engine->load_weights(to_weight_set(tiny_model(fixture.config, 78), 1, 1)));

  CHECK(fixture.alone(call).rollout_log_probs != old_result.rollout_log_probs);
  CHECK(fixture.engine->counters().prefix_hit_tokens == 0);
}

TEST_CASE("a prompt longer than the budget of a step is read in parts while others are decoded", "[engine]") {
  EngineFixture fixture({.max_sequences = 2, .max_batch_tokens = 10, .max_context_tokens = 64});
  REQUIRE(fixture.engine->submit(request(1, {3}, {.max_response_tokens = 20})));
  static_cast<void>(fixture.engine->step());
  const auto generated = [&] { return fixture.engine->counters().generated_tokens; };
  REQUIRE(generated() == 2);
  REQUIRE(fixture.engine->submit(request(2, Ids(25, 4), {.max_response_tokens = 20})));
  for (const std::int64_t expected :
       {3, 4, 7}) {  // 10 and 20 tokens are read; then the last 5: first token, and both go on
    static_cast<void>(fixture.engine->step());
    CHECK(generated() == expected);
  }
  CHECK(fixture.engine->counters().prefill_tokens == 26);
}

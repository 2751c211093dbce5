// RL-7: in deterministic mode a request's ids and the bits of its log-probs are a function of the request and the weights.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "policies/engine/inference_decoder.hpp"
#include "tests/unit/policies/engine/engine_fixture.hpp"

using namespace memopd;
using namespace memopd::testing;

namespace {

EngineOptions deterministic(std::int32_t max_sequences, std::int32_t max_batch_tokens) {
  return {.max_sequences = max_sequences,
          .max_batch_tokens = max_batch_tokens,
          .max_context_tokens = 256,
          .scored_vocab = 500,
          .is_deterministic = true,
          .weight_swap = WeightSwap::rebuild};
}

/// 70 requests: more than a tile of rows when all are decoded together.
std::vector<GenerateRequest> many_requests() {
  std::vector<GenerateRequest> calls;
  SplitMix random(5);
  for (std::uint64_t id = 0; id < 70; ++id) {
    std::vector<std::int32_t> prompt(1 + random.below(60));
    for (std::int32_t& token : prompt) token = static_cast<std::int32_t>(random.below(500));
    calls.push_back(request(id, std::move(prompt),
                            {.max_response_tokens = static_cast<std::int32_t>(1 + random.below(20)), .seed = id}));
  }
  return calls;
}

using Results = std::map<std::uint64_t, GenerateResult>;

Results run(EngineFixture& fixture, const std::vector<GenerateRequest>& calls) {
  for (const GenerateRequest& call : calls) REQUIRE(fixture.engine->submit(call));
  return fixture.drain();
}

bool have_equal_bits(const Results& a, const Results& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.response_token_ids == y.second.response_token_ids &&
           x.second.rollout_log_probs == y.second.rollout_log_probs;
  });
}

Results one_by_one(EngineFixture& fixture, const std::vector<GenerateRequest>& calls) {
  Results results;
  for (const GenerateRequest& call : calls) results[call.request_id] = fixture.alone(call);
  return results;
}

}  // namespace

TEST_CASE("deterministic: alone, among others, in any slot and batch, a request has equal bits",
          "[engine][RL-7][pain:T10]") {
  auto calls = many_requests();
  EngineFixture small(deterministic(1, 1), wide_config());
  const Results expected = one_by_one(small, calls);
  EngineFixture large(deterministic(70, 8192), wide_config());
  EngineFixture middle(deterministic(9, 100), wide_config());

  CHECK(have_equal_bits(run(large, calls), expected));
  CHECK(have_equal_bits(run(middle, calls), expected));
  std::reverse(calls.begin(), calls.end());
  CHECK(have_equal_bits(run(large, calls), expected));
}

TEST_CASE("deterministic: after a reload of the same weights a request has equal bits", "[engine][RL-7]") {
  const auto calls = many_requests();
  EngineFixture fixture(deterministic(16, 256), wide_config());
  const Results expected = run(fixture, calls);
  REQUIRE(fixture.engine->load_weights(to_weight_set(tiny_model(wide_config(), 4), 0, 1)));
  CHECK_FALSE(have_equal_bits(run(fixture, calls), expected));
  REQUIRE(fixture.engine->load_weights(to_weight_set(fixture.model, 0, 2)));

  CHECK(have_equal_bits(run(fixture, calls), expected));
}

TEST_CASE("deterministic: a token has equal bits whether the tokens before it were read at once or one by one",
          "[engine][RL-7]") {
  const auto calls = many_requests();
  EngineFixture fixture(deterministic(16, 8192), wide_config());
  const Results expected = run(fixture, calls);
  for (const GenerateRequest& call : calls) REQUIRE(fixture.engine->submit(call));
  Results rebuilt;
  for (std::int64_t version = 1; !fixture.engine->is_idle(); ++version) {
    REQUIRE(fixture.engine->load_weights(to_weight_set(fixture.model, 0, version)));  // every cache is computed anew
    for (GenerateResult& result : fixture.engine->step()) rebuilt[result.request_id] = std::move(result);
  }

  CHECK(fixture.engine->counters().rebuilt_sequences > 70);
  CHECK(have_equal_bits(rebuilt, expected));
}

TEST_CASE("deterministic: logits, not only log-probs of what was sampled, have equal bits in any batch",
          "[engine][RL-7]") {
  Transformer model = tiny_model(wide_config());
  model.set_row_exact(true);
  InferenceDecoder decoder(
      model, {.max_sequences = 70, .num_slots = 70, .max_rows = 5000, .max_context_tokens = 256, .scored_vocab = 500});
  const auto calls = many_requests();
  std::vector<PrefillRow> prompts;
  for (const GenerateRequest& call : calls) {
    prompts.push_back({static_cast<std::int32_t>(prompts.size()), call.prompt_token_ids});
  }
  const auto together = decoder.prefill(model, prompts);
  const std::vector<float> expected(together.begin(), together.end());
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto alone = decoder.prefill(model, {&prompts[i], 1});
    CHECK(std::equal(alone.begin(), alone.end(), expected.begin() + static_cast<std::ptrdiff_t>(i * 500)));
  }
}

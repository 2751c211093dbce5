// An engine on a small model, and requests for it.
#pragma once

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "policies/engine/engine.hpp"
#include "policies/model/checkpoint.hpp"
#include "policies/model/weights.hpp"
#include "policies/text/tokenizer.hpp"
#include "tests/unit/policies/model/tiny_models.hpp"

namespace memopd::testing {

/// A model folder and an engine on it.
struct EngineFixture {
  explicit EngineFixture(EngineOptions options = {.max_context_tokens = 64}, ModelConfig model_config = tiny_config(),
                         std::shared_ptr<const Tokenizer> tokenizer = nullptr)
      : folder("engine"), config(std::move(model_config)), model(tiny_model(config)) {
    REQUIRE(save_transformer(folder.path(), model));
    auto created = Engine::create(folder.path(), std::move(tokenizer), options);
    REQUIRE(created);
    engine = std::move(*created);
  }

  /// Runs until nothing is left; results by request id.
  std::map<std::uint64_t, GenerateResult> drain() {
    std::map<std::uint64_t, GenerateResult> results;
    for (int i = 0; i < 1000 && !engine->is_idle(); ++i) {
      for (GenerateResult& result : engine->step()) results[result.request_id] = std::move(result);
    }
    REQUIRE(engine->is_idle());
    return results;
  }

  GenerateResult alone(const GenerateRequest& request) {
    REQUIRE(engine->submit(request));
    return drain().at(request.request_id);
  }

  TemporaryFolder folder;
  ModelConfig config;
  Transformer model;
  std::unique_ptr<Engine> engine;
};

inline GenerateRequest request(std::uint64_t id, std::vector<std::int32_t> prompt, Sampling sampling) {
  return {.request_id = id, .prompt_token_ids = std::move(prompt), .sampling = sampling, .stop_strings = {}};
}

/// Requests of several lengths, sampled and greedy.
inline std::vector<GenerateRequest> some_requests() {
  return {request(1, {3}, {.max_response_tokens = 12, .seed = 11}),
          request(2, {4, 5, 6, 7, 8, 9}, {.temperature = 0.7, .max_response_tokens = 20, .seed = 12}),
          request(3, {9, 9, 2}, {.temperature = 0, .max_response_tokens = 7}),
          request(4, {1, 2}, {.top_p = 0.8, .max_response_tokens = 15, .seed = 13}),
          request(5, {20, 1, 20, 1}, {.temperature = 1.5, .max_response_tokens = 9, .seed = 14})};
}

}  // namespace memopd::testing

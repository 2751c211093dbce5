// What options and requests must satisfy. Torch-free.
#pragma once

#include <cstdint>

#include "policies/engine/engine.hpp"
#include "runtime/base/expected.hpp"

namespace memopd {

/// @return  options with scored_vocab filled in
/// @error invalid_argument  as Engine::create; one problem, named
Expected<EngineOptions> check_options(const EngineOptions& options, const ModelConfig& config);

/// Room for those in work and for prefixes of those that are not any more.
[[nodiscard]] std::int32_t num_slots(const EngineOptions& options);

struct RequestLimits {
  std::int32_t vocab_size = 0;
  std::int32_t max_context_tokens = 0;
  bool has_tokenizer = false;
};

/// @error invalid_argument, invocation_too_long  as Engine::submit; one problem, named with the request
Expected<void> check_request(const GenerateRequest& request, const RequestLimits& limits);

}  // namespace memopd

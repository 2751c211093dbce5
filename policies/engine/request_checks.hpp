// What a generate request must satisfy before it may wait. Torch-free.
#pragma once

#include <cstdint>

#include "policies/engine/engine.hpp"
#include "runtime/base/expected.hpp"

namespace memopd {

struct RequestLimits {
  std::int32_t vocab_size = 0;
  std::int32_t max_context_tokens = 0;
  bool has_tokenizer = false;
};

/// @error invalid_argument, invocation_too_long  as Engine::submit; one problem, named with the request
Expected<void> check_request(const GenerateRequest& request, const RequestLimits& limits);

}  // namespace memopd

#include "policies/engine/request_checks.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace memopd {

namespace {

/// Smaller temperatures overflow the scaled logits; 0 is the way to ask for the most probable id.
constexpr double kMinTemperature = 1e-6;

std::string sampling_problem(const Sampling& sampling) {
  const double t = sampling.temperature;
  if (!std::isfinite(t) || (t != 0 && t < kMinTemperature)) {
    return "temperature is " + std::to_string(t) + ", allowed 0 or at least 1e-6";
  }
  if (!(sampling.top_p > 0 && sampling.top_p <= 1))
    return "top_p is " + std::to_string(sampling.top_p) + ", allowed (0, 1]";
  if (sampling.top_k < 0) return "top_k is " + std::to_string(sampling.top_k) + ", allowed 0 and more";
  if (!(sampling.min_p >= 0 && sampling.min_p < 1))
    return "min_p is " + std::to_string(sampling.min_p) + ", allowed [0, 1)";
  if (sampling.max_response_tokens < 1) {
    return "max_response_tokens is " + std::to_string(sampling.max_response_tokens) + ", allowed 1 and more";
  }
  return {};
}

}  // namespace

Expected<EngineOptions> check_options(const EngineOptions& options, const ModelConfig& config) {
  const auto invalid = [](const std::string& what) {
    return unexpected(ErrorCode::invalid_argument, "engine: " + what);
  };
  EngineOptions checked = options;
  if (checked.scored_vocab == 0) checked.scored_vocab = config.vocab_size;
  if (checked.max_sequences < 1)
    return invalid("max_sequences is " + std::to_string(checked.max_sequences) + ", below 1");
  if (checked.max_batch_tokens < 1)
    return invalid("max_batch_tokens is " + std::to_string(checked.max_batch_tokens) + ", below 1");
  if (checked.max_context_tokens < 2 || checked.max_context_tokens > config.max_position_embeddings) {
    return invalid("max_context_tokens is " + std::to_string(checked.max_context_tokens) +
                   ", allowed 2 to the model's " + std::to_string(config.max_position_embeddings));
  }
  if (checked.max_weight_generations < 1)
    return invalid("max_weight_generations is " + std::to_string(checked.max_weight_generations) + ", below 1");
  if (checked.prefix_cache_tokens < 0)
    return invalid("prefix_cache_tokens is " + std::to_string(checked.prefix_cache_tokens) + ", below 0");
  if (checked.scored_vocab < 1 || checked.scored_vocab > config.vocab_size) {
    return invalid("scored_vocab is " + std::to_string(checked.scored_vocab) + ", allowed 1 to the model's " +
                   std::to_string(config.vocab_size));
  }
  return checked;
}

std::int32_t num_slots(const EngineOptions& options) {
  const std::int32_t context = options.max_context_tokens;
  return options.max_sequences + options.prefix_cache_tokens / context + (options.prefix_cache_tokens % context > 0);
}

Expected<void> check_request(const GenerateRequest& request, const RequestLimits& limits) {
  const std::string name = "request " + std::to_string(request.request_id) + ": ";
  const auto invalid = [&name](const std::string& what) {
    return unexpected(ErrorCode::invalid_argument, name + what);
  };
  const auto& prompt = request.prompt_token_ids;
  if (prompt.empty()) return invalid("the prompt is empty");
  const auto outside =
      std::find_if(prompt.begin(), prompt.end(), [&](std::int32_t id) { return id < 0 || id >= limits.vocab_size; });
  if (outside != prompt.end()) {
    return invalid("prompt id " + std::to_string(*outside) + " outside the vocabulary of " +
                   std::to_string(limits.vocab_size));
  }
  if (prompt.size() >= static_cast<std::size_t>(limits.max_context_tokens)) {
    return unexpected(ErrorCode::invocation_too_long, name + std::to_string(prompt.size()) +
                                                          " prompt tokens leave no room in max_context_tokens " +
                                                          std::to_string(limits.max_context_tokens));
  }
  if (const std::string problem = sampling_problem(request.sampling); !problem.empty()) return invalid(problem);
  for (const std::string& stop : request.stop_strings) {
    if (stop.empty()) return invalid("a stop string is empty");
  }
  if (!request.stop_strings.empty() && !limits.has_tokenizer) return invalid("stop strings need a tokenizer");
  return {};
}

}  // namespace memopd

#include "actors/teacher_state.hpp"

#include <utility>
#include <vector>

#include "policies/text/stop_matcher.hpp"
#include "runtime/alignpack/history_pack.hpp"

namespace memopd {
namespace {

/// Index after the token that completes the first `</think>`; 0 in a response without one: all of it is visible then.
std::int32_t reasoning_end(const Tokenizer& tokenizer, const Invocation& invocation) {
  StopMatcher matcher({"</think>"});
  for (std::size_t t = 0; t < invocation.response_token_ids.size(); ++t) {
    if (matcher.push(tokenizer.token_bytes(invocation.response_token_ids[t]))) {
      return static_cast<std::int32_t>(t) + 1;
    }
  }
  return 0;
}

}  // namespace

PackHistory pack_history_for(const std::string& state, const PackConfig& pack,
                             std::shared_ptr<const Tokenizer> tokenizer) {
  if (state == "aligned") {
    return {};
  }
  const HistoryState history = state == "memory_mask" ? HistoryState::memory_mask : HistoryState::persistent_history;
  const AlignPackOptions options{pack.max_tokens, false, 1};
  return [history, options, tokenizer = std::move(tokenizer)](const Trajectory& trajectory) {
    const std::vector<const Trajectory*> one{&trajectory};
    return pack_histories(one, history, options,
                          [&](const Invocation& invocation) { return reasoning_end(*tokenizer, invocation); });
  };
}

}  // namespace memopd

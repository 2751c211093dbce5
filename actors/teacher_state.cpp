#include "actors/teacher_state.hpp"

#include <utility>
#include <vector>

#include "policies/text/mem1_protocol.hpp"
#include "runtime/alignpack/history_pack.hpp"

namespace memopd {

PackHistory pack_history_for(const std::string& state, const PackConfig& pack,
                             std::shared_ptr<const Tokenizer> tokenizer) {
  if (state == "aligned") {
    return {};
  }
  const HistoryState history = state == "memory_mask" ? HistoryState::memory_mask : HistoryState::persistent_history;
  const AlignPackOptions options{pack.max_tokens, false, 1};
  return [history, options, tokenizer = std::move(tokenizer)](const Trajectory& trajectory) {
    const std::vector<const Trajectory*> one{&trajectory};
    return pack_histories(one, history, options, [&](const Invocation& invocation) {
      return reasoning_end(*tokenizer, invocation.response_token_ids);
    });
  };
}

}  // namespace memopd

// One attempt at a trajectory as its records say, as text for people and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "policies/text/tokenizer.hpp"
#include "runtime/ledger/audit.hpp"
#include "runtime/ledger/ledger_records.hpp"
#include "tools/memopd/ledger_divergence.hpp"

namespace memopd {

struct ShownCall {
  InvocationRecord record;
  std::optional<CallDivergence::Values> divergence;
  std::string no_divergence;  ///< why there is none although it was asked for
};

struct ShownAttempt {
  std::vector<ShownCall> calls;  ///< by invocation_index
  std::optional<TrajectoryRecord> ended;
  TrajectoryFate fate;
};

/// Lineage, trajectory, attempt.
using AttemptKey = std::tuple<std::int64_t, TrajectoryId, std::int32_t>;

struct AttemptViewOptions {
  bool has_colors = false;
  bool with_tokens = false;  ///< ids of spans, and a line per response token
};

/// Spans stand under their kind: instruction, question, kept, observation; then the response. Characters that a terminal
/// obeys are shown as \xNN, bytes that are not UTF-8 as U+FFFD.
void write_text(const AttemptKey& key, const ShownAttempt& attempt, const Tokenizer& tokenizer,
                const AttemptViewOptions& options, std::ostream& out);

/// One line. Text is as it was, but for bytes that are not UTF-8.
[[nodiscard]] std::string to_json(const AttemptKey& key, const ShownAttempt& attempt, const Tokenizer& tokenizer);

}  // namespace memopd

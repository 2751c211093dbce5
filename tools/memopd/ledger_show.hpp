// `memopd ledger show`: what every call of a trajectory saw and answered, as ids and as text.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "policies/text/tokenizer.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/data/trajectory_id.hpp"
#include "tools/memopd/attempt_view.hpp"
#include "tools/memopd/ledger_run.hpp"

namespace memopd {

/// Which attempts; all conditions together.
struct ShowSelection {
  std::optional<TrajectoryId> trajectory{};
  std::optional<std::int32_t> step{};  ///< that dispatched the trajectory
  std::string split{};                 ///< "" = any
  std::optional<std::int32_t> call{};  ///< only this invocation of each
  std::int64_t limit = 1;              ///< attempts, in the order of their first record; >= 1
};

struct ShowOptions {
  AttemptViewOptions view{};
  bool with_divergence = false;  ///< per response token, computed again
  bool is_json = false;          ///< one JSON object a line and attempt
};

/// Prints the attempts selected, in the order of their first record.
/// @return how many; 0 when nothing matches
/// @error those of for_each_record; with_divergence: those of CallDivergence::load
Expected<std::int64_t> show_ledger(const LedgerRun& run, const Tokenizer& tokenizer, const ShowSelection& selection,
                                   const ShowOptions& options, std::ostream& out);

}  // namespace memopd

// In which state the teacher scores: the setting opd.state as a function of recorded trajectories.
#pragma once

#include <memory>
#include <string>

#include "actors/step_assembler.hpp"
#include "policies/text/tokenizer.hpp"
#include "runtime/config/schema.hpp"

namespace memopd {

/// Empty for "aligned"; else packs a whole trajectory in that state (runtime/alignpack/history_pack.hpp). `tokenizer`
/// finds the end of the thinking part of a response, where the memory mask cuts.
[[nodiscard]] PackHistory pack_history_for(const std::string& state, const PackConfig& pack,
                                           std::shared_ptr<const Tokenizer> tokenizer);

}  // namespace memopd

// `--set a.b=value`. Internal to this folder.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/config/schema.hpp"

namespace memopd::detail {

/// Sets what `overrides` name, with the checks of a file; appends one line per problem.
/// A text may be given bare (opd.divergence=jsd) or as a TOML string; everything else as in TOML.
/// Tables of an array by index: env.0.num_slots=4. Naming a setting twice is a problem.
void apply_overrides(std::span<const std::string> overrides, Config& config, std::vector<std::string>& problems);

}  // namespace memopd::detail

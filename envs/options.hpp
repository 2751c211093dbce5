// Option values as an environment reads them, and the nearest of known names for messages.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "envs/registry.hpp"
#include "runtime/base/expected.hpp"

namespace memopd {

/// The known name with the fewest edits to `name` (Levenshtein; first on ties); empty when none is within half of
/// the longer one.
[[nodiscard]] std::string nearest_name(std::string_view name, std::span<const std::string> known);

/// `options` with defaults filled in.
/// @error invalid_argument  unknown keys, all of them, each with the nearest known name
Expected<EnvOptions> complete_options(std::string_view environment, std::span<const OptionSpec> specs,
                                      EnvOptions options);

/// A value of completed options; a key that its definition lacks is a bug.
/// @error invalid_argument  not a number, or outside [low, high]; names key, value and range
Expected<double> option_number(const EnvOptions& options, const std::string& key, double low, double high);
Expected<std::int32_t> option_integer(const EnvOptions& options, const std::string& key, std::int32_t low,
                                      std::int32_t high);
/// @error invalid_argument  neither `true` nor `false`
Expected<bool> option_flag(const EnvOptions& options, const std::string& key);

}  // namespace memopd

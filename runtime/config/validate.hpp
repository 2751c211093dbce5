// What settings mean together: contradictions and settings without effect are errors, so nothing is silently ignored.
//
// A part that is switched off on purpose (ppo.coef = 0, opd.coef = 0, or a default-off switch that the file states)
// may keep its other settings: baselines are one override away from the method.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/base/expected.hpp"
#include "runtime/config/schema.hpp"

namespace memopd {

/// Which command is about to run; each needs other tables.
enum class Purpose : std::uint8_t { launch, sft, eval, rollout };

[[nodiscard]] std::string_view to_string(Purpose purpose);

/// @error config_error  all problems, one line each, with the place of the setting where it is known
/// Reads no file: folders are checked by whoever opens them. Pure and thread-safe.
[[nodiscard]] Expected<void> validate(const Config& config, Purpose purpose);

}  // namespace memopd

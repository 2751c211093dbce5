// From TOML and `--set a.b=value` to a Config and back. Strict: what a file says takes effect, or is an error.
//
// Every problem is reported at once, one line each, as `file:line:column: object, found, allowed`, with the nearest
// name where one is close: `launch.toml:3:1: unknown key opd.cofe, did you mean opd.coef`.
// Parsing, dumping, nearest names and the reference all come from one field table, so a setting exists once.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/expected.hpp"
#include "runtime/config/schema.hpp"

namespace memopd {

/// Reads a file and then applies `overrides` ("opd.coef=0.5", "env.0.num_slots=4", "env.0.options.places=new").
/// @error not_found     no such file
/// @error io_error      it cannot be read
/// @error config_error  unknown key or table, wrong type, out of range, unknown word, duplicate, not TOML, bad override
/// Thread-safe. What settings mean together is checked by validate() (validate.hpp).
[[nodiscard]] Expected<Config> load_config(const std::filesystem::path& path,
                                           std::span<const std::string> overrides = {});

/// As load_config() for TOML that is already in memory; `source_name` stands for the file in messages.
[[nodiscard]] Expected<Config> parse_config(std::string_view text, std::string_view source_name,
                                            std::span<const std::string> overrides = {});

/// Complete TOML: every setting of every table. parse_config(dump_config(c)) == c for any c that the ranges allow.
[[nodiscard]] std::string dump_config(const Config& config);

/// All settings with default, range and meaning, for people.
[[nodiscard]] std::string config_reference();

}  // namespace memopd

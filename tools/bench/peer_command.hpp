// Runs the peer of a bench, a script in another environment.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/base/expected.hpp"

namespace memopd {

/// A word of a shell command.
[[nodiscard]] std::string quoted(const std::filesystem::path& path);

/// What the command prints; its errors go where ours go. Blocks until it ends.
/// @error io_error  it cannot be started, or ends with another status than 0
Expected<std::string> run_command(const std::string& command);

}  // namespace memopd

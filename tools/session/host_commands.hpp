// Commands on many hosts at once, each with its exit code and what it printed last.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

struct CommandEnd {
  int code = 0;                    ///< as a shell shows it
  std::string text;                ///< how it ended, in words
  std::vector<std::string> lines;  ///< the last 20 that it printed, either stream
  std::chrono::milliseconds duration{0};
};

/// Runs all of `commands` (name -> argv) in parallel and waits for them; what takes longer than `patience` is killed.
/// Blocks. Start nothing else meanwhile (see ProcessTable).
[[nodiscard]] Expected<std::map<std::string, CommandEnd>> run_commands(
    const std::map<std::string, std::vector<std::string>>& commands, std::chrono::milliseconds patience);

}  // namespace memopd

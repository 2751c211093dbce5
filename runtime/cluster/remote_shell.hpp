// Command lines that start a program on another host through the system's ssh.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

/// `text` as one word of a POSIX shell.
[[nodiscard]] std::string shell_word(std::string_view text);

/// A host name or number, with or without "user@"; what ssh takes as its destination and never as an option.
/// @error invalid_argument  empty, or a character outside [A-Za-z0-9._@-], or a leading '-'
[[nodiscard]] Expected<void> check_address(std::string_view address);

/// ssh that asks nothing, tells within 5 s that nobody answers, notices a lost connection after 10 s, and passes standard
/// input and output through. Host keys are checked as the user's ssh configuration says.
/// @param argv  the program on that host and its arguments; the shell there only executes it
[[nodiscard]] std::vector<std::string> ssh_command(const std::string& address, const std::vector<std::string>& argv);

}  // namespace memopd

// How a process ended, in words: what waitpid and the kernel's out-of-memory counter say.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace memopd {

enum class ExitKind : std::uint8_t { exited, signaled };

struct ExitCause {
  ExitKind kind = ExitKind::exited;
  int code = 0;    ///< exited: 0 to 255
  int signal = 0;  ///< signaled: its number
  bool dumped_core = false;
  bool was_out_of_memory = false;  ///< SIGKILL, and the kernel's counter of such kills had risen

  [[nodiscard]] bool is_success() const { return kind == ExitKind::exited && code == 0; }
};

/// @param status  as waitpid gives it for a process that has ended
[[nodiscard]] ExitCause decode_wait_status(int status);

/// "exited with code 3", "killed by SIGSEGV, core dumped", "killed by SIGKILL (the kernel's out-of-memory killer)".
[[nodiscard]] std::string to_string(const ExitCause& cause);

/// The code a shell would show: the exit code, or 128 + signal.
[[nodiscard]] int shell_code(const ExitCause& cause);

/// How many processes of this one's memory control group (version 1 or 2, the innermost that counts) the kernel has killed
/// for want of memory; empty where nothing counts. `root` is "/" but in tests.
[[nodiscard]] std::optional<std::int64_t> oom_kill_count(const std::filesystem::path& root = "/");

}  // namespace memopd

#include "runtime/cluster/wait_status.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <sstream>

#include "runtime/cluster/detail/cgroup.hpp"

namespace memopd {
namespace {

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

std::optional<std::int64_t> count_in(const std::filesystem::path& path) {
  std::istringstream words(detail::file_text(path));
  for (std::string key, value; words >> key >> value;) {
    if (key == "oom_kill") {
      return std::strtoll(value.c_str(), nullptr, 10);
    }
  }
  return std::nullopt;
}

}  // namespace

ExitCause decode_wait_status(int status) {
  ExitCause cause;
  if (WIFSIGNALED(status)) {
    cause.kind = ExitKind::signaled;
    cause.signal = WTERMSIG(status);
    cause.dumped_core = WCOREDUMP(status);
  } else {
    cause.code = WEXITSTATUS(status);
  }
  return cause;
}

std::string to_string(const ExitCause& cause) {
  if (cause.kind == ExitKind::exited) {
    return fmt::format("exited with code {}", cause.code);
  }
  return fmt::format("killed by {}{}{}", signal_name(cause.signal), cause.dumped_core ? ", core dumped" : "",
                     cause.was_out_of_memory ? " (the kernel's out-of-memory killer)" : "");
}

int shell_code(const ExitCause& cause) { return cause.kind == ExitKind::exited ? cause.code : 128 + cause.signal; }

std::optional<std::int64_t> oom_kill_count(const std::filesystem::path& root) {
  for (const auto& folder : detail::cgroup_folders(root, "memory")) {
    for (const char* name : {"memory.events", "memory.oom_control"}) {
      if (const auto count = count_in(folder / name)) {
        return count;
      }
    }
  }
  return std::nullopt;
}

}  // namespace memopd

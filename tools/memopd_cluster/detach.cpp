#include "tools/memopd_cluster/detach.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <system_error>
#include <thread>

#include "tools/session/console.hpp"

namespace memopd {
namespace {

namespace fs = std::filesystem;

std::uintmax_t size_of(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  return error ? 0 : size;
}

std::string read_from(const fs::path& path, std::uintmax_t offset) {
  std::ifstream stream(path, std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(offset));
  return {std::istreambuf_iterator<char>(stream), {}};
}

[[noreturn]] void become_the_run(const fs::path& output, const std::function<int()>& launch) {
  ::setsid();
  const int nothing = ::open("/dev/null", O_RDONLY);
  // The launcher says the monitor's link, and with it the token.
  const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (nothing < 0 || file < 0) {
    ::_exit(kExitRunFailed);
  }
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  ::close(nothing);
  ::close(file);
  const int code = launch();
  std::fflush(nullptr);
  ::_exit(code);
}

int exit_code_of_status(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

}  // namespace

int run_detached(const DetachPlan& plan, const std::function<int()>& launch) {
  const fs::path events = plan.run_folder / "events.jsonl";
  const fs::path final_output = plan.run_folder / "logs" / "launcher.out";
  // A new run makes its folder itself and refuses one that holds anything: until then its output lies beside it.
  std::error_code error;
  fs::create_directories(plan.run_folder.parent_path(), error);
  const fs::path output =
      plan.is_resumed ? final_output : fs::path(fmt::format("{}.launching-{}", plan.run_folder.string(), ::getpid()));
  const std::uintmax_t old_events = size_of(events);
  const std::uintmax_t old_output = size_of(output);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) {
    return report_error("--detach: cannot fork", kExitRunFailed);
  }
  if (child == 0) {
    become_the_run(output, launch);
  }
  int status = 0;
  bool has_ended = false;
  while (!has_ended && size_of(events) <= old_events) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    has_ended = ::waitpid(child, &status, WNOHANG) == child;
  }
  const int code = has_ended ? exit_code_of_status(status) : kExitOk;
  const bool has_begun = size_of(events) > old_events;
  if (code != kExitOk) {
    std::fputs(read_from(output, old_output).c_str(), stderr);
  }
  if (!plan.is_resumed) {
    has_begun ? fs::rename(output, final_output, error) : static_cast<void>(fs::remove(output, error));
  }
  if (code == kExitOk) {
    const std::string folder = plan.run_folder.string();
    fmt::print(
        "run {}, pid {}\nfollow: memopd-cluster top {}\n        memopd-cluster logs {} --follow\nend:    "
        "memopd-cluster stop {}\n",
        folder, child, folder, folder, folder);
  }
  return code;
}

}  // namespace memopd

// The folder of a run as its launcher would have left it, and processes to be recorded in it.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/telemetry/processes_file.hpp"
#include "tests/unit/runtime/telemetry/scratch_folder.hpp"

/// A child that ends by its default reaction to signals; ended and collected by the destructor.
class WaitingChild {
 public:
  explicit WaitingChild(bool has_own_group = false) {
    // Catch2's handlers are inherited: no signal may arrive before they are gone.
    sigset_t all;
    sigset_t old;
    sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, &old);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::signal(SIGINT, SIG_DFL);
      sigemptyset(&old);
      ::sigprocmask(SIG_SETMASK, &old, nullptr);
      while (true) {
        ::pause();
      }
    }
    ::sigprocmask(SIG_SETMASK, &old, nullptr);
    if (has_own_group) {
      ::setpgid(pid_, pid_);
    }
  }
  ~WaitingChild() { (void)end(); }
  WaitingChild(const WaitingChild&) = delete;
  WaitingChild& operator=(const WaitingChild&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] memopd::HostProcess identity() const {
    return {memopd::own_host_name(), pid_, memopd::process_start_ticks(pid_)};
  }
  [[nodiscard]] bool is_running() const { return memopd::process_start_ticks(pid_) != 0; }
  /// Waits for the end that someone else gave it. @return the signal
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }
  int end() {
    if (pid_ <= 0) {
      return 0;
    }
    ::kill(pid_, SIGKILL);
    return wait();
  }

 private:
  pid_t pid_ = 0;
};

class RunFolder {
 public:
  RunFolder() {
    std::filesystem::create_directory(path() / "logs");
    write("manifest.json", R"({"run_name": "try2"})");
  }
  [[nodiscard]] const std::filesystem::path& path() const { return folder_.path(); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path() / name, std::ios::binary) << text;
  }
  void append(const std::string& name, const std::string& text) const {
    std::ofstream(path() / name, std::ios::binary | std::ios::app) << text;
  }
  void launched_by(const memopd::HostProcess& launcher) const {
    (void)memopd::save_processes(path(), {"try2", 1000, launcher, {}});
  }

 private:
  ScratchFolder folder_;
};

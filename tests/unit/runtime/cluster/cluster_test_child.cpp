// A child of the process tests. usage: cluster_test_child MODE [ARGUMENT..]; modes are listed in main.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cluster/lease.hpp"
#include "runtime/cluster/process_table.hpp"

namespace {

using std::chrono::milliseconds;
using Arguments = std::vector<std::string>;

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

int wait_for_ever() {
  while (true) {
    ::pause();
  }
}

/// beat INTERVAL_MS LEASE_MS: an orderly child.
int beat(const Arguments& arguments) {
  const auto start = memopd::read_start_bytes();
  if (!start) {
    say(start.error().message);
    return 2;
  }
  auto lease = memopd::Lease::start(
      {.heartbeat_interval = milliseconds(std::stol(arguments[0])), .lease = milliseconds(std::stol(arguments[1]))});
  if (!lease) {
    say(lease.error().message);
    return 2;
  }
  say("ready");
  return wait_for_ever();
}

/// Forks a process that lives on; it leaves the group if asked to.
pid_t fork_survivor(bool leaves_group) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (leaves_group) {
      ::setsid();
    }
    wait_for_ever();
  }
  return pid;
}

/// grandchild group|session exit|INTERVAL_MS LEASE_MS: says its child's pid, then ends or is an orderly child.
int grandchild(const Arguments& arguments) {
  say("grandchild " + std::to_string(fork_survivor(arguments[0] == "session")));
  return arguments[1] == "exit" ? 0 : beat({arguments[1], arguments[2]});
}

/// once: one heartbeat and no more.
int beat_once(const Arguments&) {
  [[maybe_unused]] const auto written = ::write(3, ".", 1);
  return wait_for_ever();
}

/// bytes: says how many start bytes came and their sum, then waits for the first lease byte.
int count_bytes(const Arguments&) {
  const auto bytes = memopd::read_start_bytes();
  if (!bytes) {
    say(bytes.error().message);
    return 2;
  }
  std::uint64_t sum = 0;
  for (const std::byte byte : *bytes) {
    sum += std::to_integer<std::uint64_t>(byte);
  }
  char lease = 0;
  const auto size = ::read(0, &lease, 1);
  say(std::to_string(bytes->size()) + " bytes, sum " + std::to_string(sum) + ", then " + std::string(1, lease));
  return size == 1 ? 0 : 2;
}

/// lines COUNT: stops, says as many lines and one without an end, all at once, then is killed by SIGKILL.
int lines(const Arguments& arguments) {
  ::raise(SIGSTOP);
  std::string text;
  for (long i = 0; i < std::stol(arguments[0]); ++i) {
    text += "line " + std::to_string(i) + "\n";
  }
  std::fputs((text + "half a line").c_str(), stdout);
  std::fflush(stdout);
  ::raise(SIGKILL);
  return 2;
}

/// self: its open descriptors, whether SIGUSR1 is blocked or SIGINT ignored, group, folder.
int describe_self(const Arguments&) {
  std::string text = "descriptors";
  for (int fd = 0; fd < 1024; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) {
      text += " " + std::to_string(fd);
    }
  }
  say(text);
  sigset_t blocked;
  ::sigprocmask(SIG_SETMASK, nullptr, &blocked);
  struct sigaction interrupt = {};
  ::sigaction(SIGINT, nullptr, &interrupt);
  say("blocked " + std::to_string(::sigismember(&blocked, SIGUSR1)) + " ignored " +
      std::to_string(interrupt.sa_handler == SIG_IGN ? 1 : 0));
  say(std::string("leads group ") + (::getpgrp() == ::getpid() ? "yes" : "no"));
  say("folder " + std::filesystem::current_path().string());
  return 0;
}

/// table DEAD_AFTER_MS MODE..: a parent with one child of that mode; says its pid, what befalls it and what it says.
int parent_of(const Arguments& arguments) {
  auto table = memopd::ProcessTable::start(
      {.heartbeat_interval = milliseconds(40), .dead_after = milliseconds(std::stol(arguments[0]))},
      {[](const std::string& name, std::int64_t) { say("suspect " + name); },
       [](const std::string& name) { say("recovered " + name); },
       [](const std::string& name, const memopd::ExitReport& report) { say("ended " + name + " " + report.text); }});
  if (!table) {
    return 2;
  }
  memopd::ChildSpec spec{.name = "child", .argv = {std::filesystem::read_symlink("/proc/self/exe")}};
  spec.argv.insert(spec.argv.end(), arguments.begin() + 1, arguments.end());
  spec.log_file = "/dev/stderr";  // what the child says goes on to our own parent
  const auto mark = (*table)->launch(spec);
  if (!mark) {
    say(mark.error().message);
    return 2;
  }
  say("child " + std::to_string(mark->pid));
  while ((*table)->snapshot().front().silent_ms < 0) {
    std::this_thread::sleep_for(milliseconds(2));
  }
  say("heard child");
  return wait_for_ever();
}

int stubborn(const Arguments& arguments) {
  ::signal(SIGTERM, SIG_IGN);
  return beat(arguments);
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, int (*)(const Arguments&)> modes = {
      {"beat", beat},
      {"once", beat_once},
      {"bytes", count_bytes},
      {"grandchild", grandchild},
      {"lines", lines},
      {"self", describe_self},
      {"stubborn", stubborn},
      {"table", parent_of},
      {"silent", [](const Arguments&) { return wait_for_ever(); }},
      {"exit", [](const Arguments& code) { return std::stoi(code[0]); }},
      {"abort", [](const Arguments&) -> int { std::abort(); }},
  };
  const auto mode = modes.find(argc > 1 ? argv[1] : "");
  if (mode == modes.end()) {
    std::fputs("cluster_test_child: unknown mode\n", stderr);
    return 2;
  }
  return mode->second(Arguments(argv + 2, argv + argc));
}

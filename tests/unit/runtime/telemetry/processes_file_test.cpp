#include "runtime/telemetry/processes_file.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/unit/runtime/telemetry/scratch_folder.hpp"

using namespace memopd;

namespace {

ProcessesFile example() {
  ProcessRecord worker;
  worker.name = "worker/3";
  worker.node = "node1";
  worker.identity = {"host-a", 4711, 99};
  worker.pgid = 4711;
  worker.incarnation = 2;
  worker.state = RecordedState::suspect;
  worker.reason = "silent";
  worker.restarts = 1;
  worker.rss_bytes = 1 << 20;
  worker.cpu_s = 1.5;
  worker.silent_ms = 800;
  worker.actors = {"env/0", "env/1"};
  worker.log = "logs/worker-3.log";
  return {"try", 1'767'225'600'500, {"host-a", 12, 34}, {worker}};
}

/// A child that waits for its end; ended and collected by the destructor.
class Child {
 public:
  Child() : pid_(::fork()) {
    if (pid_ == 0) {
      ::pause();
      ::_exit(0);
    }
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  void kill() const { ::kill(pid_, SIGKILL); }
  /// Dead, and still a zombie.
  void wait_for_death() const {
    siginfo_t info;
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }
  void end() {
    if (pid_ > 0) {
      kill();
      ::waitpid(pid_, nullptr, 0);
      pid_ = 0;
    }
  }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

}  // namespace

TEST_CASE("processes.json comes back as it was saved", "[telemetry]") {
  const ScratchFolder folder;
  REQUIRE(save_processes(folder.path(), example()));
  const auto loaded = load_processes(folder.path());
  REQUIRE(loaded);
  CHECK(*loaded == example());
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("processes.json names what is wrong in it", "[telemetry][error]") {
  CHECK(parse_processes("[1]").error().code == ErrorCode::parse_error);
  CHECK(parse_processes("{\"run\": \"a\", \"proc").error().code == ErrorCode::parse_error);
  CHECK_THAT(parse_processes(R"({"processes": [{"state": "asleep"}]})").error().message,
             Catch::Contains("\"state\"") && Catch::Contains("asleep"));
  CHECK_THAT(parse_processes(R"({"launcher": {"pid": "twelve"}})").error().message, Catch::Contains("\"pid\""));
  CHECK_THAT(parse_processes(R"({"processes": [7]})").error().message, Catch::Contains("processes"));
  const ScratchFolder folder;
  CHECK(load_processes(folder.path()).error().code == ErrorCode::not_found);
  std::ofstream(folder.path() / "processes.json") << "{";
  CHECK_THAT(load_processes(folder.path()).error().message, Catch::Contains("processes.json"));
}

TEST_CASE("a process is alive only under its own start time and host", "[telemetry][pain:L04]") {
  Child child;
  const HostProcess identity{own_host_name(), child.pid(), process_start_ticks(child.pid())};
  REQUIRE(identity.start_ticks > 0);
  CHECK(is_alive_here(identity));
  CHECK(is_alive_here(own_identity()));
  // The pid lives, but it is another process that has it now.
  CHECK_FALSE(is_alive_here({identity.host, identity.pid, identity.start_ticks - 1}));
  CHECK_FALSE(is_alive_here({"elsewhere", identity.pid, identity.start_ticks}));
  CHECK_FALSE(is_alive_here({identity.host, identity.pid, 0}));
  child.kill();
  child.wait_for_death();
  CHECK_FALSE(is_alive_here(identity));
  child.end();
  CHECK(process_start_ticks(identity.pid) == 0);
}

#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "runtime/cluster/wait_status.hpp"
#include "tests/unit/runtime/cluster/test_children.hpp"

namespace memopd {

TEST_CASE("a wait status says exit code, signal and core", "[cluster][pain:L10]") {
  // W_EXITCODE(code, signal) is how Linux encodes it; 0x80 is the core flag.
  CHECK(to_string(decode_wait_status(W_EXITCODE(3, 0))) == "exited with code 3");
  CHECK(to_string(decode_wait_status(W_EXITCODE(0, SIGKILL))) == "killed by SIGKILL");
  CHECK(to_string(decode_wait_status(W_EXITCODE(0, SIGSEGV | 0x80))) == "killed by SIGSEGV, core dumped");
  CHECK(decode_wait_status(W_EXITCODE(0, 0)).is_success());
  CHECK_FALSE(decode_wait_status(W_EXITCODE(0, SIGTERM)).is_success());
}

TEST_CASE("a process that ended gives the code a shell would show", "[cluster][pain:L18]") {
  CHECK(shell_code(decode_wait_status(W_EXITCODE(3, 0))) == 3);
  CHECK(shell_code(decode_wait_status(W_EXITCODE(0, SIGKILL))) == 137);
}

TEST_CASE("a death by the out-of-memory killer is named", "[cluster][pain:L10]") {
  auto cause = decode_wait_status(W_EXITCODE(0, SIGKILL));
  cause.was_out_of_memory = true;

  CHECK(to_string(cause) == "killed by SIGKILL (the kernel's out-of-memory killer)");
}

TEST_CASE("the out-of-memory counter is found in control groups of both versions", "[cluster][pain:L10]") {
  const testing::TestFolder root;
  CHECK_FALSE(oom_kill_count(root.path()));

  SECTION("version 1") {
    root.write("proc/self/cgroup", "4:memory:/jobs/7\n0::/\n");
    root.write("sys/fs/cgroup/memory/jobs/7/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
    CHECK(oom_kill_count(root.path()) == 5);
  }
  SECTION("version 2, where the group is the mount") {
    root.write("proc/self/cgroup", "0::/not/visible\n");
    root.write("sys/fs/cgroup/memory.events", "low 0\noom 4\noom_kill 3\noom_group_kill 0\n");
    CHECK(oom_kill_count(root.path()) == 3);
  }
}

}  // namespace memopd

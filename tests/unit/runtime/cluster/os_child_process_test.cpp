#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "runtime/cluster/child_process.hpp"
#include "tests/unit/runtime/cluster/test_children.hpp"

namespace memopd {

using testing::TestTable;

TEST_CASE("a program that cannot be executed is an error of its launch", "[cluster][error]") {
  const auto missing = start_child({"/no/such/program"});
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::not_found);
  CHECK(missing.error().message == "program /no/such/program: No such file or directory");

  const auto folder = start_child({"/"});
  REQUIRE_FALSE(folder);
  CHECK(folder.error().code == ErrorCode::io_error);
  CHECK(folder.error().message == "program /: Permission denied");

  const auto nowhere = start_child({"true"}, "/no/such/folder");
  REQUIRE_FALSE(nowhere);
  CHECK(nowhere.error().message == "working directory /no/such/folder: No such file or directory");

  CHECK(start_child({}).error().code == ErrorCode::invalid_argument);
}

TEST_CASE("a child inherits four descriptors, no blocked signal and no group", "[cluster][R10]") {
  const int leak = ::fcntl(STDERR_FILENO, F_DUPFD, 20);  // not close-on-exec
  sigset_t user;
  sigset_t before;
  ::sigemptyset(&user);
  ::sigaddset(&user, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &user, &before);
  ::signal(SIGINT, SIG_IGN);
  TestTable test;

  const auto mark = test.table->launch(
      {.name = "self", .argv = testing::test_child({"self"}), .cwd = std::filesystem::canonical("/usr")});
  REQUIRE(mark);
  const auto lines = test.next_exit().report.last_lines;

  ::close(leak);
  ::signal(SIGINT, SIG_DFL);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  CHECK(lines ==
        std::vector<std::string>{"descriptors 0 1 2 3", "blocked 0 ignored 0", "leads group yes", "folder /usr"});
}

TEST_CASE("a mark whose pid is another process's now is neither alive nor signalled", "[cluster][pain:L04]") {
  TestTable test;
  const auto mark = test.launch("worker", {"silent"});
  auto reused = mark;
  reused.start_ticks -= 1;  // the process that had this pid before

  CHECK(is_alive(mark));
  CHECK_FALSE(is_alive(reused));
  const auto refused = signal_group(reused, SIGKILL);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::not_found);
  CHECK(is_alive(mark));

  CHECK(signal_group(mark, SIGTERM));
  CHECK(test.next_exit().report.text == "killed by SIGTERM");
  CHECK_FALSE(is_alive(mark));
  CHECK_FALSE(signal_group(mark, SIGTERM));
}

}  // namespace memopd

#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <future>
#include <set>
#include <thread>

#include "runtime/cluster/detail/process_stat.hpp"
#include "runtime/cluster/process_table.hpp"
#include "tests/unit/runtime/cluster/test_children.hpp"

namespace memopd {

using namespace std::chrono_literals;
using testing::TableEvent;
using testing::TestTable;

TEST_CASE("an exit report says code, signal and the code for a shell", "[cluster][pain:L10][pain:L18]") {
  TestTable test;

  test.launch("a", {"exit", "3"});
  const auto exited = test.next_exit().report;
  CHECK(exited.text == "exited with code 3");
  CHECK(exited.shell_code == 3);
  CHECK_FALSE(exited.was_asked_to_stop);
  CHECK(exited.peak_rss_bytes > 0);

  test.launch("a", {"abort"});
  CHECK(test.next_exit().report.cause.signal == SIGABRT);
}

TEST_CASE("a failed launch leaves the name free, a living child holds it", "[cluster][error]") {
  TestTable test;

  CHECK(test.table->launch({.name = "w", .argv = {"/no/such/program"}}).error().code == ErrorCode::not_found);
  test.launch("w", {"silent"});
  CHECK(test.table->launch({.name = "w", .argv = {"true"}}).error().code == ErrorCode::already_exists);
  CHECK(test.table->launch({.name = "", .argv = {"true"}}).error().code == ErrorCode::invalid_argument);
  test.table->shutdown(0ms);
  CHECK(test.table->launch({.name = "v", .argv = {"true"}}).error().code == ErrorCode::refused);
}

TEST_CASE("start bytes larger than the pipe come whole and before the first lease byte", "[cluster][PT-1]") {
  TestTable test;

  const auto mark = test.table->launch({.name = "reader",
                                        .argv = testing::test_child({"bytes"}),
                                        .cwd = {},
                                        .stdin_bytes = std::vector<std::byte>(1'000'000, std::byte{3})});

  REQUIRE(mark);
  CHECK(test.next_exit().report.last_lines == std::vector<std::string>{"1000000 bytes, sum 3000000, then +"});
}

TEST_CASE("a stopped child is suspect, recovers when it goes on, and stays", "[cluster][CL-1][PT-2][pain:L11]") {
  TestTable test(20ms, 3000ms);
  const auto mark = test.launch("worker", {"beat", "20", "60000"});
  test.wait_for_heartbeat("worker");

  REQUIRE(signal_group(mark, SIGSTOP));
  const auto suspect = test.next();
  CHECK(suspect.kind == TableEvent::Kind::suspect);
  REQUIRE(signal_group(mark, SIGCONT));
  CHECK(test.next().kind == TableEvent::Kind::recovered);
  CHECK(is_alive(mark));
}

TEST_CASE("a child that is silent for dead_after is suspect first, then declared dead and killed",
          "[cluster][CL-1][PT-2][pain:L11]") {
  TestTable test(40ms, 400ms);
  const auto mark = test.launch("worker", {"once"});

  CHECK(test.next().kind == TableEvent::Kind::suspect);
  const auto exit = test.next();

  CHECK(exit.kind == TableEvent::Kind::exit);
  CHECK(exit.report.was_silent);
  CHECK(exit.report.text.starts_with("silent for "));
  CHECK(exit.report.text.ends_with(" ms: declared dead and killed"));
  CHECK(exit.report.cause.signal == SIGKILL);
  CHECK_FALSE(is_alive(mark));
}

TEST_CASE("a table that stood still together with its child counts silence anew", "[cluster][CL-1][PT-2][pain:L11]") {
  TestTable test;
  const auto parent = test.launch("parent", {"table", "1600", "beat", "40", "60000"});
  const auto child = static_cast<pid_t>(test.said_number("parent", "child"));
  REQUIRE(test.folder.wait_for_text("parent.log", "heard child").size() > 0);

  REQUIRE(::kill(parent.pid, SIGSTOP) == 0);
  REQUIRE(::kill(child, SIGSTOP) == 0);
  std::this_thread::sleep_for(2000ms);  // longer than dead_after; nothing else says how long a process stood still
  REQUIRE(::kill(parent.pid, SIGCONT) == 0);

  REQUIRE(test.folder.wait_for_text("parent.log", "suspect child").find("ended child") == std::string::npos);
  REQUIRE(::kill(child, SIGCONT) == 0);
  CHECK(test.folder.wait_for_text("parent.log", "recovered child").find("ended child") == std::string::npos);
}

TEST_CASE("a child that has given no heartbeat yet is not judged", "[cluster][PT-2]") {
  TestTable test(10ms, 40ms);
  const auto starting = test.launch("starting", {"silent"});
  test.launch("judged", {"once"});  // its end shows that longer than dead_after has passed

  CHECK(test.next_exit().name == "judged");
  CHECK(is_alive(starting));
}

TEST_CASE("what a killed child printed last is in its log and in the report", "[cluster][PT-5][pain:L09]") {
  // The table is held up while the child prints and dies, so that all of its output is read after its end.
  testing::TestFolder folder;
  std::promise<ExitReport> reported;
  std::atomic<pid_t> worker = 0;
  auto table = ProcessTable::start({.log_folder = folder.path()},
                                   {nullptr, nullptr, [&](const std::string& name, const ExitReport& report) {
                                      if (name == "worker/0") {
                                        reported.set_value(report);
                                        return;
                                      }
                                      while (detail::read_process_stat(worker)->state != 'Z') {
                                        ::kill(worker, SIGCONT);
                                        std::this_thread::yield();
                                      }
                                    }});
  REQUIRE(table);
  const auto mark = (*table)->launch({.name = "worker/0", .argv = testing::test_child({"lines", "5000"})});
  REQUIRE(mark);
  worker = mark->pid;
  REQUIRE((*table)->launch({.name = "first", .argv = testing::test_child({"exit", "0"})}));
  const auto report = reported.get_future().get();

  CHECK(report.text == "killed by SIGKILL");
  REQUIRE(report.last_lines.size() == 20);
  CHECK(report.last_lines.front() == "line 4981");
  CHECK(report.last_lines.back() == "half a line");
  std::ifstream log(folder.path() / "worker-0.log");
  std::vector<std::string> lines;
  for (std::string line; std::getline(log, line);) {
    lines.push_back(line);
  }
  REQUIRE(lines.size() == 5001);
  CHECK(lines[1234].substr(24) == " line 1234");  // after 2026-11-30T12:00:00.123Z
  CHECK(lines[1234][10] == 'T');
  CHECK(lines[1234][23] == 'Z');
}

TEST_CASE("a child that is asked to stop may end by itself", "[cluster]") {
  TestTable test;
  const auto mark = test.launch("worker", {"beat", "40", "60000"});
  REQUIRE(signal_group(mark, SIGSTOP));  // also one that stands still

  test.table->stop("worker", 30s, "the run is over");
  const auto report = test.next_exit().report;

  CHECK(report.was_asked_to_stop);
  CHECK(report.text == "killed by SIGTERM after it was asked to stop: the run is over");
}

TEST_CASE("a child that ignores the request to stop is killed after its grace", "[cluster]") {
  TestTable test;
  test.launch("worker", {"stubborn", "40", "60000"});
  REQUIRE(test.folder.wait_for_text("worker.log", "ready").size() > 0);

  test.table->stop("worker", 50ms, "the run is over");

  CHECK(test.next_exit().report.text == "killed by SIGKILL, 50 ms after it was asked to stop: the run is over");
}

TEST_CASE("a kill gives its reason", "[cluster]") {
  TestTable test;
  test.launch("worker", {"stubborn", "40", "60000"});

  test.table->kill("worker", "its incarnation is fenced");
  const auto report = test.next_exit().report;

  CHECK(report.text == "killed by SIGKILL on request: its incarnation is fenced");
  CHECK(report.was_asked_to_stop);
}

TEST_CASE("when a child ends its group ends", "[cluster][CL-4][PT-3]") {
  TestTable test;
  test.launch("worker", {"grandchild", "group", "exit"});

  CHECK(test.next_exit().report.text == "exited with code 0");

  CHECK(testing::has_ended(static_cast<pid_t>(test.said_number("worker", "grandchild"))));
}

TEST_CASE("a kill reaches descendants that left the group", "[cluster][CL-4]") {
  TestTable test;
  test.launch("worker", {"grandchild", "session", "40", "60000"});
  const auto grandchild = static_cast<pid_t>(test.said_number("worker", "grandchild"));

  test.table->kill("worker", "no more needed");

  CHECK(test.next_exit().name == "worker");
  CHECK(testing::has_ended(grandchild));
}

TEST_CASE("after shutdown no descendant is left, not even one that left its group and lost its parent",
          "[cluster][CL-4][PT-4][pain:L02]") {
  TestTable test;
  test.launch("gone", {"grandchild", "session", "exit"});
  CHECK(test.next_exit().name == "gone");
  test.launch("alive", {"grandchild", "session", "40", "60000"});
  const auto orphan = static_cast<pid_t>(test.said_number("gone", "grandchild"));
  const auto grandchild = static_cast<pid_t>(test.said_number("alive", "grandchild"));
  REQUIRE(::kill(orphan, 0) == 0);

  test.table->shutdown(50ms);

  CHECK(test.next_exit().name == "alive");
  CHECK(::kill(orphan, 0) != 0);  // reaped too, by us
  CHECK(::kill(grandchild, 0) != 0);
}

TEST_CASE("shutdown spares helpers of this process's own group", "[cluster][PT-4]") {
  TestTable test;
  std::FILE* helper = ::popen("read line; exit 5", "w");
  REQUIRE(helper != nullptr);

  test.table->shutdown(0ms);

  std::fputs("\n", helper);
  CHECK(shell_code(decode_wait_status(::pclose(helper))) == 5);
}

TEST_CASE("handlers may kill and stop, but not launch", "[cluster][error]") {
  std::promise<ErrorCode> launched;
  std::promise<std::string> second_text;
  std::unique_ptr<ProcessTable> table;
  auto started =
      ProcessTable::start({}, {nullptr, nullptr, [&](const std::string& name, const ExitReport& report) {
                                 if (name == "first") {
                                   table->kill("second", "after the first");
                                   launched.set_value(table->launch({.name = "x", .argv = {"true"}}).error().code);
                                 } else {
                                   second_text.set_value(report.text);
                                 }
                               }});
  REQUIRE(started);
  table = std::move(*started);
  REQUIRE(table->launch({.name = "second", .argv = testing::test_child({"silent"})}));
  REQUIRE(table->launch({.name = "first", .argv = testing::test_child({"exit", "0"})}));

  auto refusal = launched.get_future();
  auto second = second_text.get_future();
  REQUIRE(second.wait_for(30s) == std::future_status::ready);
  CHECK(refusal.get() == ErrorCode::refused);
  CHECK(second.get() == "killed by SIGKILL on request: after the first");
}

TEST_CASE("64 children at once start, beat and end", "[cluster][R10]") {
  TestTable test;
  for (int i = 0; i < 64; ++i) {
    test.launch("worker/" + std::to_string(i), {"beat", "100", "60000"});
  }
  for (int i = 0; i < 64; ++i) {
    REQUIRE(test.folder.wait_for_text("worker-" + std::to_string(i) + ".log", "ready").size() > 0);
  }
  const auto snapshot = test.table->snapshot();
  test.table->shutdown(30s);

  CHECK(snapshot.size() == 64);
  CHECK(snapshot.front().rss_bytes > 0);
  std::set<std::string> ended;
  for (int i = 0; i < 64; ++i) {
    const auto exit = test.next_exit();
    CHECK(exit.report.cause.signal == SIGTERM);
    ended.insert(exit.name);
  }
  CHECK(ended.size() == 64);
}

TEST_CASE("a table refuses intervals that cannot work", "[cluster][error]") {
  CHECK(ProcessTable::start({.heartbeat_interval = 0ms, .dead_after = 10ms, .log_folder = {}}, {}).error().code ==
        ErrorCode::invalid_argument);
  CHECK(ProcessTable::start({.heartbeat_interval = 10ms, .dead_after = 19ms, .log_folder = {}}, {}).error().code ==
        ErrorCode::invalid_argument);
}

}  // namespace memopd

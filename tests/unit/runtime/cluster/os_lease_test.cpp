#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <future>
#include <thread>
#include <utility>

#include "runtime/cluster/child_process.hpp"
#include "runtime/cluster/lease.hpp"
#include "tests/unit/runtime/cluster/test_children.hpp"

namespace memopd {

using namespace std::chrono_literals;
using testing::TestTable;

namespace {

/// A pipe with both ends open.
struct TestPipe {
  TestPipe() { REQUIRE(::pipe(ends.data()) == 0); }
  ~TestPipe() {
    for (const int end : ends) {
      if (end >= 0) {
        ::close(end);
      }
    }
  }
  TestPipe(const TestPipe&) = delete;
  TestPipe& operator=(const TestPipe&) = delete;
  void write(const std::string& text) { REQUIRE(::write(ends[1], text.data(), text.size()) == ssize_t(text.size())); }
  void close_writer() { ::close(std::exchange(ends[1], -1)); }

  std::array<int, 2> ends{};
};

/// A test child without a table: nobody renews its lease.
struct TestProcess {
  explicit TestProcess(std::vector<std::string> arguments)
      : started(start_child(testing::test_child(std::move(arguments))).value()) {}
  ~TestProcess() {
    ::kill(started.mark.pid, SIGKILL);
    ::waitpid(started.mark.pid, nullptr, 0);
  }
  TestProcess(const TestProcess&) = delete;
  TestProcess& operator=(const TestProcess&) = delete;
  /// Whether one comes before the child ends.
  bool gives_heartbeat() const {
    pollfd ready{started.heartbeats.get(), POLLIN, 0};
    char beat = 0;
    return ::poll(&ready, 1, 30'000) == 1 && ::read(started.heartbeats.get(), &beat, 1) == 1;
  }
  void drop_heartbeats() const {
    char beat = 0;
    while (::read(started.heartbeats.get(), &beat, 1) == 1) {
    }
  }

  StartedChild started;
};

}  // namespace

TEST_CASE("start bytes are a length and as many bytes", "[cluster][lease]") {
  TestPipe pipe;
  pipe.write(std::string("\3\0\0\0abc+", 8));

  const auto bytes = read_start_bytes(pipe.ends[0]);

  REQUIRE(bytes);
  CHECK(*bytes == std::vector<std::byte>{std::byte{'a'}, std::byte{'b'}, std::byte{'c'}});
}

TEST_CASE("start bytes that are cut or too long are errors", "[cluster][lease][error]") {
  TestPipe cut;
  cut.write(std::string("\3\0\0\0ab", 6));
  cut.close_writer();
  CHECK(read_start_bytes(cut.ends[0]).error().message == "start bytes: 2 of 3 came: end of file");

  TestPipe large;
  large.write("\xff\xff\xff\xff");
  CHECK(read_start_bytes(large.ends[0]).error().code == ErrorCode::parse_error);
}

TEST_CASE("a lease is lost at the end of its stdin and without renewal", "[cluster][lease][LE-1]") {
  TestPipe input;
  TestPipe heartbeats;
  std::promise<std::string> lost;
  LeaseOptions options{input.ends[0], heartbeats.ends[1], 10ms, 60s,
                       [&](const std::string& reason) { lost.set_value(reason); }};
  SECTION("end of file") {
    input.close_writer();
    const auto lease = Lease::start(options);
    REQUIRE(lease);
    auto reason = lost.get_future();
    REQUIRE(reason.wait_for(10s) == std::future_status::ready);
    CHECK(reason.get() == "end of its stdin: the parent process has ended");
  }
  SECTION("no renewal") {
    options.lease = 50ms;
    const auto lease = Lease::start(options);
    REQUIRE(lease);
    auto reason = lost.get_future();
    REQUIRE(reason.wait_for(10s) == std::future_status::ready);
    CHECK(reason.get().starts_with("not renewed for "));
    char beat = 0;
    CHECK(::read(heartbeats.ends[0], &beat, 1) == 1);
  }
}

TEST_CASE("a lease refuses intervals that cannot work and descriptors that are not open", "[cluster][lease][error]") {
  CHECK(Lease::start({.heartbeat_interval = 0ms}).error().code == ErrorCode::invalid_argument);
  CHECK(Lease::start({.heartbeat_interval = 10ms, .lease = 19ms}).error().code == ErrorCode::invalid_argument);
  CHECK(Lease::start({.stdin_fd = 987, .heartbeat_fd = 988}).error().code == ErrorCode::io_error);
}

TEST_CASE("when its parent is killed a child ends, with its own children", "[cluster][lease][CL-4][LE-3][pain:L02]") {
  TestTable test;
  const auto parent = test.launch("parent", {"table", "30000", "grandchild", "session", "40", "60000"});
  const auto child = static_cast<pid_t>(test.said_number("parent", "child"));
  const auto grandchild = static_cast<pid_t>(test.said_number("parent", "grandchild"));
  REQUIRE(test.folder.wait_for_text("parent.log", "ready").size() > 0);
  SECTION("a running child") {}
  SECTION("a child that stands still") { REQUIRE(::kill(child, SIGSTOP) == 0); }

  // Not by the table: that would kill the descendants too.
  REQUIRE(::kill(parent.pid, SIGKILL) == 0);

  CHECK(testing::has_ended(child));
  CHECK(testing::has_ended(grandchild));
}

TEST_CASE("when its parent stands still longer than the lease a child ends", "[cluster][lease][CL-4][LE-1][R10]") {
  TestTable test;
  const auto parent = test.launch("parent", {"table", "30000", "beat", "40", "400"});
  const auto child = static_cast<pid_t>(test.said_number("parent", "child"));
  REQUIRE(test.folder.wait_for_text("parent.log", "ready").size() > 0);

  REQUIRE(::kill(parent.pid, SIGSTOP) == 0);

  CHECK(testing::has_ended(child));
  CHECK(is_alive(parent));
}

TEST_CASE("a child that itself stood still longer than its lease reads what came before it judges",
          "[cluster][lease][LE-2]") {
  TestTable test(20ms, 60'000ms);
  const auto mark = test.launch("worker", {"beat", "20", "600"});
  REQUIRE(test.folder.wait_for_text("worker.log", "ready").size() > 0);

  REQUIRE(signal_group(mark, SIGSTOP));
  std::this_thread::sleep_for(1300ms);  // two leases; nothing else says how long a process stood still
  REQUIRE(signal_group(mark, SIGCONT));

  test.table->stop("worker", 30s, "over");
  CHECK(test.next_exit().report.text == "killed by SIGTERM after it was asked to stop: over");
}

TEST_CASE("a child that stood still together with its parent waits one interval more", "[cluster][lease][LE-2]") {
  TestProcess child({"beat", "200", "500"});
  REQUIRE(::write(child.started.lifeline.get(), "\0\0\0\0", 4) == 4);
  REQUIRE(child.gives_heartbeat());

  REQUIRE(signal_group(child.started.mark, SIGSTOP));
  std::this_thread::sleep_for(1000ms);  // longer than the lease, and nobody renews it
  child.drop_heartbeats();
  REQUIRE(signal_group(child.started.mark, SIGCONT));

  CHECK(child.gives_heartbeat());                     // it has judged, and goes on
  CHECK(testing::has_ended(child.started.mark.pid));  // but not for ever
}

}  // namespace memopd

#include "tools/memopd_cluster/stop.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/tools/memopd_cluster/run_folder.hpp"

using namespace memopd;

namespace {

ProcessRecord record_of(const HostProcess& identity, std::int64_t pgid = 0) {
  ProcessRecord record;
  record.name = "worker/0";
  record.identity = identity;
  record.pgid = pgid;
  record.state = RecordedState::running;
  return record;
}

/// Collects the child as its parent's wait would, so that stop() sees it go.
void ignore_children() { ::signal(SIGCHLD, SIG_IGN); }
void collect_children() { ::signal(SIGCHLD, SIG_DFL); }

}  // namespace

TEST_CASE("a signal reaches the recorded process", "[memopd_cluster][ST-1]") {
  WaitingChild child;
  REQUIRE(signal_process(child.identity(), SIGINT));
  CHECK(child.wait() == SIGINT);
}

TEST_CASE("a signal never reaches another process of the same pid", "[memopd_cluster][ST-1][pain:L04]") {
  WaitingChild child;
  HostProcess other = child.identity();
  ++other.start_ticks;
  CHECK(signal_process(other, SIGKILL).error().code == ErrorCode::target_down);
  other = child.identity();
  other.host = "elsewhere";
  CHECK(signal_process(other, SIGKILL).error().code == ErrorCode::refused);
  CHECK(signal_process({own_host_name(), 0, 0}, SIGKILL).error().code == ErrorCode::target_down);
  ProcessesFile file{"try2", 0, {own_host_name(), child.pid(), 1}, {}};
  file.processes = {record_of({own_host_name(), child.pid(), 1}, child.pid()), record_of(other, child.pid())};
  CHECK(kill_recorded(file) == 0);
  CHECK(child.is_running());
}

TEST_CASE("stop --now kills the launcher and the groups of what it recorded", "[memopd_cluster][ST-1]") {
  WaitingChild launcher;
  WaitingChild worker(true);
  WaitingChild bystander;
  // A recorded group that is not the process's own says nothing about that group.
  WaitingChild of_our_group;
  ProcessesFile file{"try2", 0, launcher.identity(), {}};
  file.processes = {record_of(worker.identity(), worker.pid()), record_of(of_our_group.identity(), ::getpgrp())};
  CHECK(kill_recorded(file) == 3);
  CHECK(launcher.wait() == SIGKILL);
  CHECK(worker.wait() == SIGKILL);
  CHECK(of_our_group.wait() == SIGKILL);
  CHECK(bystander.is_running());
}

TEST_CASE("stop asks the launcher by SIGINT and waits until it is gone", "[memopd_cluster]") {
  ignore_children();
  {
    const RunFolder run;
    const WaitingChild launcher;
    run.launched_by(launcher.identity());
    CHECK(stop({run.path().string(), false}) == 0);
    CHECK_FALSE(launcher.is_running());
    CHECK(stop({run.path().string(), false}) == 0);
  }
  collect_children();
}

TEST_CASE("stop has an exit code for a run that is not to be stopped from here", "[memopd_cluster][error]") {
  const RunFolder run;
  CHECK(stop({run.path().string(), false}) == 2);
  CHECK(stop({(run.path() / "none").string(), false}) == 2);
  run.launched_by({"elsewhere", 12, 34});
  CHECK(stop({run.path().string(), false}) == 1);
  // The launcher is gone, and one of its processes is not.
  const WaitingChild worker(true);
  REQUIRE(save_processes(run.path(), {"try2", 0, {own_host_name(), 0x7ffffff0, 1}, {record_of(worker.identity())}}));
  CHECK(stop({run.path().string(), false}) == 1);
  CHECK(worker.is_running());
}

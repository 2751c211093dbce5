#include <catch2/catch.hpp>

#include "runtime/cluster/host_resources.hpp"
#include "tests/unit/runtime/cluster/test_children.hpp"

namespace memopd {
namespace {

/// A machine of 64 GiB and 16 cores, of which this process may use seven.
void write_machine(const testing::TestFolder& root) {
  root.write("proc/sys/kernel/hostname", "node7\n");
  root.write("proc/self/status", "Name:\tx\nCpus_allowed:\t5f\nCpus_allowed_list:\t0-3,8,10-11\n");
  root.write("proc/meminfo", "MemTotal:       67108864 kB\nMemFree: 1 kB\n");
}

}  // namespace

TEST_CASE("without control groups the affinity mask and the machine's memory count", "[cluster][pain:L16]") {
  const testing::TestFolder root;
  write_machine(root);

  const auto resources = read_host_resources(root.path());

  CHECK(resources.host_name == "node7");
  CHECK(resources.usable_cpus == 7);
  CHECK(resources.memory_limit_bytes == std::int64_t{64} << 30);
}

TEST_CASE("quotas of a group and of its parents cut what is usable", "[cluster][pain:L16]") {
  const testing::TestFolder root;
  write_machine(root);

  SECTION("version 2") {
    root.write("proc/self/cgroup", "0::/jobs/7\n");
    root.write("sys/fs/cgroup/jobs/7/cpu.max", "max 100000\n");
    root.write("sys/fs/cgroup/jobs/cpu.max", "150000 100000\n");
    root.write("sys/fs/cgroup/jobs/7/memory.max", "1073741824\n");
    root.write("sys/fs/cgroup/jobs/memory.max", "max\n");
  }
  SECTION("version 1") {
    root.write("proc/self/cgroup", "5:memory:/jobs/7\n4:cpu,cpuacct:/jobs/7\n");
    root.write("sys/fs/cgroup/cpu/jobs/7/cpu.cfs_quota_us", "-1\n");
    root.write("sys/fs/cgroup/cpu/jobs/7/cpu.cfs_period_us", "100000\n");
    root.write("sys/fs/cgroup/cpu/jobs/cpu.cfs_quota_us", "150000\n");
    root.write("sys/fs/cgroup/cpu/jobs/cpu.cfs_period_us", "100000\n");
    root.write("sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "9223372036854771712\n");
    root.write("sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "1073741824\n");
  }
  const auto resources = read_host_resources(root.path());

  CHECK(resources.usable_cpus == 1.5);
  CHECK(resources.memory_limit_bytes == 1'073'741'824);
}

TEST_CASE("this machine has at least one CPU, some memory and a name", "[cluster][pain:L16]") {
  const auto resources = read_host_resources();

  CHECK(resources.usable_cpus > 0);
  CHECK(resources.memory_limit_bytes > 0);
  CHECK_FALSE(resources.host_name.empty());
}

}  // namespace memopd

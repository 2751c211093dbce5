// What of this machine the process may use: a container's share, not the machine's size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace memopd {

struct HostResources {
  std::string host_name;
  double usable_cpus = 1;               ///< > 0; a quota may be a fraction
  std::int64_t memory_limit_bytes = 0;  ///< 0: unknown
};

/// CPUs: the affinity mask, cut by the quotas of the control group and its parents (version 1 and 2). Memory: MemTotal, cut
/// by their limits. `root` is "/" but in tests: every value comes from files below root/proc and root/sys/fs/cgroup.
[[nodiscard]] HostResources read_host_resources(const std::filesystem::path& root = "/");

}  // namespace memopd

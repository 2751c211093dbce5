#include "runtime/cluster/host_resources.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <string_view>

#include "runtime/cluster/detail/cgroup.hpp"

namespace memopd {
namespace {

using detail::file_text;

/// The first whole number at or after the start of `text`, spaces skipped; empty for "max" and other words.
std::optional<std::int64_t> number_in(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::int64_t value = 0;
  return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc() ? std::optional(value)
                                                                                          : std::nullopt;
}

/// What follows `key` on its line, or nothing.
std::string value_of(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key)) {
      return line.substr(key.size());
    }
  }
  return {};
}

/// How many numbers a list such as "0-3,7" names; 0 if it is not one.
int count_of_list(const std::string& list) {
  std::istringstream parts(list);
  std::int64_t count = 0;
  for (std::string part; std::getline(parts, part, ',');) {
    const auto dash = part.find('-');
    const auto first = number_in(part);
    const auto last = dash == std::string::npos ? first : number_in(std::string_view(part).substr(dash + 1));
    count += first && last ? std::max<std::int64_t>(0, *last - *first + 1) : 0;
  }
  return static_cast<int>(count);
}

std::optional<double> share(std::optional<std::int64_t> quota, std::optional<std::int64_t> period) {
  return quota && period && *quota > 0 && *period > 0
             ? std::optional(static_cast<double>(*quota) / static_cast<double>(*period))
             : std::nullopt;
}

/// CPUs that one control group allows.
std::optional<double> cpu_quota(const std::filesystem::path& group) {
  const std::string line = file_text(group / "cpu.max");  // version 2: "150000 100000" or "max 100000"
  if (const auto space = line.find(' '); space != std::string::npos) {
    return share(number_in(line), number_in(std::string_view(line).substr(space)));
  }
  return share(number_in(file_text(group / "cpu.cfs_quota_us")), number_in(file_text(group / "cpu.cfs_period_us")));
}

std::optional<std::int64_t> memory_limit(const std::filesystem::path& group) {
  const auto limit = number_in(file_text(group / "memory.max"));
  return limit ? limit : number_in(file_text(group / "memory.limit_in_bytes"));
}

}  // namespace

HostResources read_host_resources(const std::filesystem::path& root) {
  HostResources resources;
  std::istringstream(file_text(root / "proc/sys/kernel/hostname")) >> resources.host_name;
  const std::string allowed = value_of(file_text(root / "proc/self/status"), "Cpus_allowed_list:");
  resources.usable_cpus = std::max(1, count_of_list(allowed));
  for (const auto& group : detail::cgroup_folders(root, "cpu")) {
    resources.usable_cpus = std::min(resources.usable_cpus, cpu_quota(group).value_or(resources.usable_cpus));
  }
  const auto total_kib = number_in(value_of(file_text(root / "proc/meminfo"), "MemTotal:"));
  resources.memory_limit_bytes = total_kib.value_or(0) * 1024;
  for (const auto& group : detail::cgroup_folders(root, "memory")) {
    const auto limit = memory_limit(group);  // version 1 says "no limit" with a number close to 2^63
    if (limit && *limit > 0 && (resources.memory_limit_bytes == 0 || *limit < resources.memory_limit_bytes)) {
      resources.memory_limit_bytes = *limit;
    }
  }
  return resources;
}

}  // namespace memopd

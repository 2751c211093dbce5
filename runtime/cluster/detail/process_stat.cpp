#include "runtime/cluster/detail/process_stat.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <unordered_map>

#include "runtime/cluster/detail/file_descriptor.hpp"

namespace memopd::detail {
namespace {

std::string read_short_file(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 2048> buffer{};
  const auto size = file.is_open() ? ::read(file.get(), buffer.data(), buffer.size()) : -1;
  return size > 0 ? std::string(buffer.data(), static_cast<std::size_t>(size)) : std::string();
}

}  // namespace

std::optional<ProcessStat> read_process_stat(pid_t pid) {
  const std::string text = read_short_file("/proc/" + std::to_string(pid) + "/stat");
  const auto name_end = text.rfind(')');  // the name itself may hold anything
  if (name_end == std::string::npos) {
    return std::nullopt;
  }
  ProcessStat stat;
  stat.pid = pid;
  unsigned long user = 0;
  unsigned long system = 0;
  unsigned long long start = 0;
  // Fields 3, 4, 5, then 14, 15 and 22 of proc(5).
  const int found = std::sscanf(text.c_str() + name_end + 1,
                                " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d %llu",
                                &stat.state, &stat.parent, &stat.pgid, &user, &system, &start);
  if (found != 6) {
    return std::nullopt;
  }
  stat.cpu_ticks = user + system;
  stat.start_ticks = start;
  return stat;
}

std::int64_t resident_bytes(pid_t pid) {
  long pages = 0;
  const std::string text = read_short_file("/proc/" + std::to_string(pid) + "/statm");
  return std::sscanf(text.c_str(), "%*d %ld", &pages) == 1 ? std::int64_t{pages} * ::sysconf(_SC_PAGESIZE) : 0;
}

std::vector<ProcessStat> read_all_processes() {
  std::vector<ProcessStat> all;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), &::closedir);
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') {
      if (const auto stat = read_process_stat(static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10)))) {
        all.push_back(*stat);
      }
    }
  }
  return all;
}

std::vector<ProcessStat> descendants_of(pid_t ancestor, const std::vector<ProcessStat>& all) {
  std::unordered_multimap<pid_t, const ProcessStat*> children;
  for (const ProcessStat& process : all) {
    children.emplace(process.parent, &process);
  }
  std::vector<ProcessStat> found;
  std::vector<pid_t> queue = {ancestor};
  while (!queue.empty() && found.size() <= all.size()) {  // parents change while we read: no chain is trusted to end
    const auto [first, last] = children.equal_range(queue.back());
    queue.pop_back();
    for (auto child = first; child != last; ++child) {
      found.push_back(*child->second);
      queue.push_back(child->second->pid);
    }
  }
  return found;
}

}  // namespace memopd::detail

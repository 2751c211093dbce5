#include "runtime/cluster/detail/cgroup.hpp"

#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

namespace memopd::detail {
namespace {

bool lists(std::string_view controllers, std::string_view controller) {
  return ("," + std::string(controllers) + ",").find("," + std::string(controller) + ",") != std::string::npos;
}

/// Appends mount/group, mount/parent of group, .., mount.
void append_chain(const std::filesystem::path& mount, const std::filesystem::path& group,
                  std::vector<std::filesystem::path>& folders) {
  std::error_code ignored;
  std::filesystem::path at = group.relative_path();
  while (true) {
    // In a container the group's own folder may not be visible: its mount is then the group.
    if (std::filesystem::is_directory(mount / at, ignored)) {
      folders.push_back(mount / at);
    }
    if (at.empty()) {
      return;
    }
    at = at.parent_path();
  }
}

}  // namespace

std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::filesystem::path> cgroup_folders(const std::filesystem::path& root, std::string_view controller) {
  const std::filesystem::path mounts = root / "sys/fs/cgroup";
  std::vector<std::filesystem::path> folders;
  std::istringstream lines(file_text(root / "proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {  // number:controllers:path
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      append_chain(mounts, group, folders);
      append_chain(mounts / "unified", group, folders);
    } else if (lists(controllers, controller)) {
      append_chain(mounts / controller, group, folders);
    }
  }
  return folders;
}

}  // namespace memopd::detail

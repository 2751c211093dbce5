// Finds the control group files of this process, version 1 or 2.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace memopd::detail {

/// The folders of this process's control group for `controller` ("cpu", "memory") and of its parents, innermost first, of
/// version 2 and of version 1; only those that exist. `root` is "/" but in tests.
[[nodiscard]] std::vector<std::filesystem::path> cgroup_folders(const std::filesystem::path& root,
                                                                std::string_view controller);

/// The content of a short file; empty if there is none.
[[nodiscard]] std::string file_text(const std::filesystem::path& path);

}  // namespace memopd::detail

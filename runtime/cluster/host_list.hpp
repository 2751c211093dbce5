// Host lists as Slurm and the shells of clusters write them: "node[1-3,7],gpu01,rack[01-02]n[1-2]".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

inline constexpr std::size_t kMaxHosts = 10'000;

/// In the order of the list; numbers keep their leading zeros. Spaces around commas are left out.
/// @error invalid_argument  an open bracket, an empty name or range, a range that falls, more than kMaxHosts, a host that is
///                          there twice; names the part
[[nodiscard]] Expected<std::vector<std::string>> expand_host_list(std::string_view list);

}  // namespace memopd

// Copies this program and the libraries it loads to hosts that lack it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/base/expected.hpp"
#include "tools/session/host_check.hpp"
#include "tools/session/node_plan.hpp"

namespace memopd {

/// The libraries that this program has loaded, but for the C library and the loader, as real paths. Names of files are the
/// names they are looked up by.
[[nodiscard]] std::map<std::string, std::string> loaded_libraries();

/// For each node whose answer says so: copies to ~/.cache/memopd/<build id>-<hash> there, through ssh, as a whole or not at all, and
/// makes the node use it. A copy that is there already is used as it is. Blocks; hosts in parallel.
/// @error io_error  what the copy to each host said
Expected<void> push_program(std::vector<PlannedNode>& nodes, const std::map<std::string, HostAnswer>& answers);

}  // namespace memopd

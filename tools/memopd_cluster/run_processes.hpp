// The processes of a running launch, as processes.json shows them.
#pragma once

#include <string>

#include "runtime/cluster/head.hpp"
#include "runtime/telemetry/processes_file.hpp"

namespace memopd {

/// @param head  null: the launcher alone
[[nodiscard]] ProcessesFile recorded_processes(const std::string& run, const HeadCluster* head);

}  // namespace memopd

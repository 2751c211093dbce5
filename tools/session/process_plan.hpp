// Which processes a configuration asks for, and on which node each would run.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/cluster/placement.hpp"
#include "runtime/config/schema.hpp"

namespace memopd {

struct PlannedProcess {
  ProcessDemand demand;
  std::string node;
  std::vector<std::string> actors;  ///< "env/0", ..
};

/// The nodes of [[node]], or this host; what a node does not say is this host's.
[[nodiscard]] std::vector<NodeCapacity> planned_nodes(const Config& config);

/// In the order of the [[role]] tables; empty without one. Starts nothing.
/// @error overloaded  no node has room for one of them: names it and what each node lacks
[[nodiscard]] Expected<std::vector<PlannedProcess>> plan_processes(const Config& config);

}  // namespace memopd

// Which processes a configuration asks for, and on which node each would run.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/cluster/placement.hpp"
#include "runtime/config/schema.hpp"
#include "tools/session/node_plan.hpp"

namespace memopd {

struct PlannedProcess {
  ProcessDemand demand;
  std::string node;
  std::vector<std::string> actors;  ///< "env/0", ..
};

/// In the order of the [[role]] tables; empty without one. Starts nothing.
/// @error overloaded  no node has room for one of them: names it and what each node lacks; or align_pack or the learner, which
///                    write into the run directory, would live on another host than it
[[nodiscard]] Expected<std::vector<PlannedProcess>> plan_processes(const Config& config,
                                                                   const std::vector<PlannedNode>& nodes);

}  // namespace memopd

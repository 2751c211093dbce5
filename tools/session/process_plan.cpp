#include "tools/session/process_plan.hpp"

#include <algorithm>

#include "runtime/cluster/host_resources.hpp"

namespace memopd {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

std::int32_t num_actors(const Config& config, const std::string& role) {
  if (role == "env") {
    return config.env.front().num_actors;
  }
  if (role == "student") {
    return config.student.num_actors;
  }
  if (role == "teacher") {
    return config.opd.coef > 0 ? config.teacher.num_actors : 0;
  }
  if (role == "teacher_policy") {
    return config.eval.teacher ? 1 : 0;
  }
  return role == "learner" ? config.learner.num_ranks : 1;
}

ProcessDemand demand_of(const RoleConfig& role, const std::string& process) {
  return {process,
          role.name,
          role.cpus,
          role.memory_gib * kGib,
          split_labels(role.labels),
          role.placement == "spread" ? PlacementRule::spread : PlacementRule::pack};
}

}  // namespace

std::vector<NodeCapacity> planned_nodes(const Config& config) {
  const HostResources host = read_host_resources();
  const auto host_memory = static_cast<double>(host.memory_limit_bytes);
  std::vector<NodeCapacity> nodes;
  for (const NodeConfig& node : config.node) {
    nodes.push_back({node.name, node.cpus > 0 ? node.cpus : host.usable_cpus,
                     node.memory_gib > 0 ? node.memory_gib * kGib : host_memory, split_labels(node.labels)});
  }
  if (nodes.empty()) {
    nodes.push_back({"local", host.usable_cpus, host_memory, {}});
  }
  return nodes;
}

Expected<std::vector<PlannedProcess>> plan_processes(const Config& config) {
  std::vector<PlannedProcess> planned;
  for (const RoleConfig& role : config.role) {
    for (std::int32_t rank = 0; rank < num_actors(config, role.name); ++rank) {
      const std::string actor = role.name + "/" + std::to_string(rank);
      const std::string process = role.process == "own" ? actor : role.process;
      auto found = std::find_if(planned.begin(), planned.end(),
                                [&](const PlannedProcess& other) { return other.demand.name == process; });
      if (found == planned.end()) {
        planned.push_back({demand_of(role, process), {}, {}});
        found = std::prev(planned.end());
      }
      found->actors.push_back(actor);
    }
  }
  std::vector<ProcessDemand> demands;
  for (const PlannedProcess& process : planned) {
    demands.push_back(process.demand);
  }
  Placement placement(planned_nodes(config));
  const auto nodes = placement.place(demands);
  if (!nodes) {
    return unexpected(nodes.error());
  }
  for (std::size_t i = 0; i < planned.size(); ++i) {
    planned[i].node = (*nodes)[i];
  }
  return planned;
}

}  // namespace memopd

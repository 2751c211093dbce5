#include "tools/session/process_plan.hpp"

#include <algorithm>

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

/// Who writes into the run directory lives on its host.
Expected<void> check_files_are_there(const PlannedProcess& process, const std::vector<PlannedNode>& nodes) {
  const bool is_elsewhere = std::any_of(nodes.begin(), nodes.end(), [&](const PlannedNode& node) {
    return !node.is_here() && node.capacity.name == process.node;
  });
  for (const std::string& actor : process.actors) {
    const std::string role = actor.substr(0, actor.find('/'));
    if (is_elsewhere && (role == "align_pack" || role == "learner")) {
      return unexpected(ErrorCode::overloaded,
                        "process " + process.demand.name + " would live on node " + process.node + ", but " + role +
                            " writes into the run directory: give it labels that only nodes of this host have");
    }
  }
  return {};
}

}  // namespace

Expected<std::vector<PlannedProcess>> plan_processes(const Config& config, const std::vector<PlannedNode>& nodes) {
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
  Placement placement(capacities(nodes));
  const auto placed = placement.place(demands);
  if (!placed) {
    return unexpected(placed.error());
  }
  for (std::size_t i = 0; i < planned.size(); ++i) {
    planned[i].node = (*placed)[i];
    MEMOPD_RETURN_IF_ERROR(check_files_are_there(planned[i], nodes));
  }
  return planned;
}

}  // namespace memopd

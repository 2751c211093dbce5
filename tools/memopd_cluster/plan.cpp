#include "tools/memopd_cluster/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "policies/training/memory_plan.hpp"
#include "runtime/config/load.hpp"
#include "runtime/config/validate.hpp"
#include "tools/session/console.hpp"
#include "tools/session/process_plan.hpp"

namespace memopd {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

std::string to_table(const std::vector<DevicePlan>& devices, double limit_gib) {
  std::string text;
  for (const DevicePlan& device : devices) {
    text += fmt::format("gpu {}\n", device.device);
    for (const MemoryPart& part : device.parts) {
      text += fmt::format("  {:<12} {:<20} {:>8.2f} GiB\n", part.role, part.part, part.bytes / kGib);
    }
    text += fmt::format("  {:<12} {:<20} {:>8.2f} GiB\n", "", "context and slack", kOverheadBytes / kGib);
    const double total = device.total_bytes() / kGib;
    text += fmt::format("  {:<12} {:<20} {:>8.2f} GiB of {:.0f}: {}\n", "", "total", total, limit_gib,
                        total <= limit_gib ? "fits" : fmt::format("too much by {:.2f} GiB", total - limit_gib));
  }
  return text;
}

nlohmann::ordered_json to_json(const std::vector<DevicePlan>& devices, double limit_gib) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const DevicePlan& device : devices) {
    nlohmann::ordered_json parts = nlohmann::ordered_json::array();
    for (const MemoryPart& part : device.parts) {
      parts.push_back({{"role", part.role}, {"part", part.part}, {"gib", part.bytes / kGib}});
    }
    const double total = device.total_bytes() / kGib;
    json.push_back({{"gpu", device.device}, {"parts", parts}, {"total_gib", total}, {"fits", total <= limit_gib}});
  }
  return json;
}

std::string to_table(const std::vector<PlannedProcess>& processes) {
  if (processes.empty()) {
    return "every role runs in the launcher's process\n";
  }
  std::string text = fmt::format("{:<20} {:<12} {:>6} {:>10}  {}\n", "process", "node", "cpus", "memory", "actors");
  for (const PlannedProcess& process : processes) {
    text += fmt::format("{:<20} {:<12} {:>6g} {:>6.2f} GiB  {}\n", process.demand.name, process.node,
                        process.demand.cpus, process.demand.memory_bytes / kGib, fmt::join(process.actors, " "));
  }
  return text;
}

nlohmann::ordered_json to_json(const std::vector<PlannedProcess>& processes) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const PlannedProcess& process : processes) {
    json.push_back({{"process", process.demand.name},
                    {"node", process.node},
                    {"cpus", process.demand.cpus},
                    {"memory_gib", process.demand.memory_bytes / kGib},
                    {"actors", process.actors}});
  }
  return json;
}

struct Models {
  ModelConfig student;
  std::optional<ModelConfig> teacher;
};

Expected<Models> load_shapes(const Config& config) {
  auto student = load_model_config(config.student.model);
  if (!student) {
    return unexpected(student.error());
  }
  Models models{*std::move(student), std::nullopt};
  if (config.opd.coef > 0) {
    auto teacher = load_model_config(config.teacher.model);
    if (!teacher) {
      return unexpected(teacher.error());
    }
    models.teacher = *std::move(teacher);
  }
  return models;
}

}  // namespace

int plan(const PlanArguments& arguments) {
  auto config = load_config(arguments.config_path, arguments.overrides);
  if (!config) {
    return report_error(config.error().message, kExitUsage);
  }
  if (auto used = arguments.hosts.empty() ? Expected<void>() : use_hosts(*config, arguments.hosts); !used) {
    return report_error("--nodes: " + used.error().message, kExitUsage);
  }
  if (auto valid = validate(*config, Purpose::launch); !valid) {
    return report_error(valid.error().message, kExitUsage);
  }
  auto models = load_shapes(*config);
  if (!models) {
    return report_error(models.error().message, kExitUsage);
  }
  auto nodes = plan_nodes(*config);
  if (!nodes) {
    return report_error("[[node]]: " + nodes.error().message, kExitUsage);
  }
  for (PlannedNode& node : *nodes) {  // nobody is asked: what a host did not say is enough
    node.capacity.cpus = node.capacity.cpus > 0 ? node.capacity.cpus : std::numeric_limits<double>::infinity();
    node.capacity.memory_bytes =
        node.capacity.memory_bytes > 0 ? node.capacity.memory_bytes : std::numeric_limits<double>::infinity();
  }
  const auto processes = plan_processes(*config, *nodes);
  if (!processes) {
    return report_error(processes.error().message, kExitInfeasible);
  }
  const auto devices = plan_memory(*config, models->student, models->teacher ? &*models->teacher : nullptr,
                                   {arguments.num_gpus, arguments.shard_optimizer});
  const std::string text = arguments.is_json
                               ? nlohmann::ordered_json{{"processes", to_json(*processes)},
                                                        {"gpus", to_json(devices, arguments.gpu_memory_gib)}}
                                         .dump(1) +
                                     "\n"
                               : to_table(*processes) + "\n" + to_table(devices, arguments.gpu_memory_gib);
  std::fputs(text.c_str(), stdout);
  const bool fits = std::all_of(devices.begin(), devices.end(), [&](const DevicePlan& device) {
    return device.total_bytes() <= arguments.gpu_memory_gib * kGib;
  });
  return fits ? kExitOk : kExitInfeasible;
}

}  // namespace memopd

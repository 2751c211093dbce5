// `memopd-cluster plan`: what a run would hold on each device, and whether it fits. Starts nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace memopd {

struct PlanArguments {
  std::string config_path;
  std::vector<std::string> overrides;  ///< a.b=value
  std::string hosts;                   ///< as LaunchArguments::hosts
  std::int32_t num_gpus = 4;
  double gpu_memory_gib = 80;
  bool shard_optimizer = false;
  bool is_json = false;
};

/// @return exit code: 0 it fits, 2 usage or config, 3 it does not fit
int plan(const PlanArguments& arguments);

}  // namespace memopd

// `memopd-cluster doctor`: every host of a run, and every pair of them, on the ports and links that the run would use.
#pragma once

#include <string>
#include <vector>

namespace memopd {

struct DoctorArguments {
  std::string config_path;
  std::vector<std::string> overrides;
  std::string hosts;  ///< as LaunchArguments::hosts
  bool is_json = false;
};

/// @return exit code: 0 all is well, 2 usage or config, 4 a host or a pair has a problem
int doctor(const DoctorArguments& arguments);

}  // namespace memopd

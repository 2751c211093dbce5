// `memopd-cluster launch`: the whole training run, from its configuration to a verdict.
#pragma once

#include <string>
#include <vector>

namespace memopd {

struct LaunchArguments {
  std::string config_path;
  std::vector<std::string> overrides;  ///< a.b=value
  bool is_dry_run = false;             ///< print the resolved configuration and stop
  std::string resume;       ///< folder of a run to go on with; its config.toml is used when there is no other
  std::string hosts;        ///< host list instead of the addresses of [[node]]; "" = those
  bool is_pushing = false;  ///< copy the program to hosts that lack this build
  std::vector<std::string> command_line;
};

/// @return exit code: 0 as planned, 1 run failed, 2 usage or config, 3 plan infeasible, 4 host check failed, 5 node lost, 128+n ended by signal n
int launch(const LaunchArguments& arguments);

/// In a process that a launch started: serves as agent or worker, and never returns. Else: returns at once.
void serve_if_child(int argc, char** argv);

}  // namespace memopd

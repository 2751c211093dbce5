// `memopd-cluster status RUN`: how a run stands, from its folder.
#pragma once

#include <string>

#include "tools/memopd_cluster/run_view.hpp"

namespace memopd {

struct StatusArguments {
  std::string run;  ///< its folder
  bool is_json = false;
};

/// For people: state, step, metrics, first failure, processes, age of the data. Pure but for the liveness in `view`.
[[nodiscard]] std::string format_status(const RunView& view);
/// For scripts: {"run", "folder", "state", "step", "num_steps", "metrics", "first_failure", "data_age_ms", "launcher",
/// "processes"}; what is not known is null.
[[nodiscard]] std::string status_json(const RunView& view);
/// One row per recorded process; empty when there is none.
[[nodiscard]] std::string format_processes(const RunView& view);

/// @return 0 running or ended as planned, 1 failed or lost, 2 no run there
int status(const StatusArguments& arguments);

/// Prints the link of the page that a living run serves.
/// @return 0, 1 the run is over or serves none; says how to get one; 2 no run there
int print_monitor_link(const std::string& run);

}  // namespace memopd

// `memopd-cluster top RUN`: processes and actors of a run, again and again.
#pragma once

#include <string>

#include "tools/memopd_cluster/run_view.hpp"

namespace memopd {

struct TopArguments {
  std::string run;  ///< its folder
  bool is_once = false;
};

/// State, processes, then actors: the busiest first, who waits for whom and since when. Busy = share of the time between
/// the two topologies spent in handlers; "-" when there are not two. Pure.
/// @param max_actors  shown; the rest is counted
[[nodiscard]] std::string format_top(const RunView& view, const RunView* before, std::size_t max_actors);

/// Shows it each second until the run has ended or it is interrupted; on a terminal in place, elsewhere one after another.
/// @return 0 running or ended as planned, 1 failed or lost, 2 no run there
int top(const TopArguments& arguments);

}  // namespace memopd

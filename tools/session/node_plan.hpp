// The nodes of a run: [[node]] with its patterns expanded, or the hosts that --nodes names.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/cluster/head.hpp"
#include "runtime/cluster/placement.hpp"
#include "runtime/config/schema.hpp"

namespace memopd {

struct PlannedNode {
  NodeCapacity capacity;  ///< cpus and memory 0: not known before the host was asked
  std::string address;    ///< as ssh takes it; empty: this host
  std::string program;    ///< memopd-cluster on that host
  std::string pushed;     ///< folder below the home folder there that holds the program and its libraries; empty: none
  [[nodiscard]] bool is_here() const { return address.empty(); }
};

/// Puts `hosts` (see expand_host_list) in the place of the addresses of [[node]]: the first host gets what the first table says
/// of cpus, memory and labels, and so on; the last table serves for all that remain. A host that is this one becomes "local".
/// @error invalid_argument  as expand_host_list and check_address
Expected<void> use_hosts(Config& config, std::string_view hosts);

/// In the order of the tables; this host where there is none.
/// @error invalid_argument  a pattern, an address, a name that is there twice
[[nodiscard]] Expected<std::vector<PlannedNode>> plan_nodes(const Config& config);

/// Whether `host` is a name or an address of this host.
[[nodiscard]] bool is_this_host(const std::string& host);

/// How a program is executed on a node: as it is here, through ssh elsewhere.
[[nodiscard]] std::vector<std::string> command_on(const PlannedNode& node, const std::vector<std::string>& arguments);

[[nodiscard]] std::vector<NodeCapacity> capacities(const std::vector<PlannedNode>& nodes);
/// For ProcessClusterOptions.
[[nodiscard]] std::map<std::string, RemoteNode> remote_nodes(const std::vector<PlannedNode>& nodes);

}  // namespace memopd

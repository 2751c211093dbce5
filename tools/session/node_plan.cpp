#include "tools/session/node_plan.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>

#include "runtime/cluster/host_list.hpp"
#include "runtime/cluster/host_resources.hpp"
#include "runtime/cluster/reach.hpp"
#include "runtime/cluster/remote_shell.hpp"

namespace memopd {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr const char* kLocal = "local";

std::string own_program() {
  std::error_code failed;
  return std::filesystem::read_symlink("/proc/self/exe", failed).string();
}

/// An address belongs to this host if a socket can be bound to it.
bool is_own_address(const addrinfo& address) {
  const int probe = ::socket(address.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool is_bound = probe >= 0 && ::bind(probe, address.ai_addr, address.ai_addrlen) == 0;
  if (probe >= 0) {
    ::close(probe);
  }
  return is_bound;
}

PlannedNode node_of(const NodeConfig& table, const std::string& name, const std::string& address) {
  PlannedNode node;
  node.capacity = {name, static_cast<double>(table.cpus), table.memory_gib * kGib, split_labels(table.labels)};
  node.address = address == kLocal ? "" : address;
  node.program = table.program.empty() ? own_program() : table.program;
  if (node.is_here()) {
    const HostResources host = read_host_resources();
    node.capacity.cpus = table.cpus > 0 ? table.cpus : host.usable_cpus;
    node.capacity.memory_bytes =
        table.memory_gib > 0 ? table.memory_gib * kGib : static_cast<double>(host.memory_limit_bytes);
  }
  return node;
}

}  // namespace

bool is_this_host(const std::string& host) {
  if (host == kLocal || host == read_host_resources().host_name) {
    return true;
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) {
    return false;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  return is_own_address(*found);
}

Expected<void> use_hosts(Config& config, std::string_view hosts) {
  auto expanded = expand_host_list(hosts);
  MEMOPD_RETURN_IF_ERROR(expanded);
  const std::vector<NodeConfig> tables = config.node.empty() ? std::vector<NodeConfig>(1) : config.node;
  config.node.clear();
  for (std::size_t i = 0; i < expanded->size(); ++i) {
    const std::string& host = (*expanded)[i];
    NodeConfig node = tables[std::min(i, tables.size() - 1)];
    node.name = host_of_address(host);
    node.address = is_this_host(host_of_address(host)) ? kLocal : host;
    config.node.push_back(std::move(node));
  }
  return {};
}

Expected<std::vector<PlannedNode>> plan_nodes(const Config& config) {
  std::vector<PlannedNode> nodes;
  std::set<std::string> names;
  for (const NodeConfig& table : config.node) {
    auto addresses = expand_host_list(table.address);
    MEMOPD_RETURN_IF_ERROR(addresses);
    for (const std::string& address : *addresses) {
      MEMOPD_RETURN_IF_ERROR(check_address(address));
      const bool is_named = !table.name.empty() && addresses->size() == 1;
      nodes.push_back(node_of(table, is_named ? table.name : host_of_address(address), address));
      if (!names.insert(nodes.back().capacity.name).second) {
        return unexpected(ErrorCode::invalid_argument,
                          fmt::format("two nodes are named \"{}\"", nodes.back().capacity.name));
      }
    }
  }
  if (nodes.empty()) {
    nodes.push_back(node_of({}, kLocal, kLocal));
  }
  return nodes;
}

std::vector<std::string> command_on(const PlannedNode& node, const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = {node.program};
  if (!node.pushed.empty()) {  // absolute: workers live in a folder of their own
    const std::string name = std::filesystem::path(own_program()).filename().string();
    argv = {"sh", "-c", R"(program="$HOME/$0/$1"; shift; LD_LIBRARY_PATH="$HOME/$0" exec "$program" "$@")", node.pushed,
            name};
  }
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return node.is_here() ? argv : ssh_command(node.address, argv);
}

std::vector<NodeCapacity> capacities(const std::vector<PlannedNode>& nodes) {
  std::vector<NodeCapacity> all;
  for (const PlannedNode& node : nodes) {
    all.push_back(node.capacity);
  }
  return all;
}

std::map<std::string, RemoteNode> remote_nodes(const std::vector<PlannedNode>& nodes) {
  std::map<std::string, RemoteNode> remote;
  for (const PlannedNode& node : nodes) {
    if (!node.is_here()) {
      remote[node.capacity.name] = {command_on(node, {"memopd-agent", "agent/" + node.capacity.name}), node.address};
    }
  }
  return remote;
}

}  // namespace memopd

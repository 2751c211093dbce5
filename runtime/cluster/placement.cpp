#include "runtime/cluster/placement.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace memopd {

std::vector<std::string> split_labels(std::string_view text) {
  std::vector<std::string> labels;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view word = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const std::size_t first = word.find_first_not_of(' ');
    if (first != std::string_view::npos) {
      word = word.substr(first, word.find_last_not_of(' ') - first + 1);
      labels.emplace_back(word);
    }
  }
  return labels;
}

Placement::Placement(std::vector<NodeCapacity> nodes) : nodes_(std::move(nodes)), used_(nodes_.size()) {}

std::string Placement::lacking(std::size_t node, const ProcessDemand& demand) const {
  constexpr double kGib = 1024.0 * 1024 * 1024;
  std::vector<std::string> missing;
  if (unavailable_.contains(nodes_[node].name)) {
    missing.emplace_back("an agent");
  }
  for (const std::string& label : demand.labels) {
    const auto& labels = nodes_[node].labels;
    if (std::find(labels.begin(), labels.end(), label) == labels.end()) {
      missing.push_back(fmt::format("label \"{}\"", label));
    }
  }
  const double free_cpus = nodes_[node].cpus - used_[node].cpus;
  if (demand.cpus > free_cpus + 1e-9) {
    missing.push_back(fmt::format("{:g} of {:g} cpus", demand.cpus - free_cpus, demand.cpus));
  }
  const double free_memory = nodes_[node].memory_bytes - used_[node].memory_bytes;
  if (demand.memory_bytes > free_memory) {
    missing.push_back(fmt::format("{:.2f} of {:.2f} GiB memory", (demand.memory_bytes - free_memory) / kGib,
                                  demand.memory_bytes / kGib));
  }
  return fmt::format("{}", fmt::join(missing, ", "));
}

void Placement::reserve(std::size_t node, const ProcessDemand& demand) {
  used_[node].cpus += demand.cpus;
  used_[node].memory_bytes += demand.memory_bytes;
  ++used_[node].roles[demand.role];
  placed_[demand.name] = {demand, node};
}

Expected<std::vector<std::string>> Placement::place(std::span<const ProcessDemand> demands) {
  std::vector<std::string> chosen;
  for (const ProcessDemand& demand : demands) {
    std::size_t best = nodes_.size();
    std::string lacks;
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      if (const std::string missing = lacking(node, demand); !missing.empty()) {
        lacks += fmt::format("{}{} lacks {}", lacks.empty() ? "" : "; ", nodes_[node].name, missing);
      } else if (best == nodes_.size() || (demand.rule == PlacementRule::spread &&
                                           used_[node].roles[demand.role] < used_[best].roles[demand.role])) {
        best = node;
      }
    }
    if (best == nodes_.size()) {
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        release(demands[i].name);
      }
      return unexpected(ErrorCode::overloaded, fmt::format("no node has room for process {}: {}", demand.name,
                                                           lacks.empty() ? "there is no node" : lacks));
    }
    reserve(best, demand);
    chosen.push_back(nodes_[best].name);
  }
  return chosen;
}

void Placement::release(std::string_view process) {
  const auto found = placed_.find(process);
  if (found == placed_.end()) {
    return;
  }
  Use& use = used_[found->second.node];
  use.cpus -= found->second.demand.cpus;
  use.memory_bytes -= found->second.demand.memory_bytes;
  --use.roles[found->second.demand.role];
  placed_.erase(found);
}

void Placement::set_available(std::string_view node, bool is_available) {
  if (is_available) {
    unavailable_.erase(std::string(node));
  } else {
    unavailable_.emplace(node);
  }
}

std::optional<std::string> Placement::move(std::string_view process) {
  const auto found = placed_.find(process);
  if (found == placed_.end()) {
    return std::nullopt;
  }
  const Placed before = found->second;
  release(process);
  if (const auto nodes = place({&before.demand, 1})) {
    return nodes->front();
  }
  reserve(before.node, before.demand);
  return std::nullopt;
}

}  // namespace memopd

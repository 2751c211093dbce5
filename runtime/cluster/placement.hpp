// Placement: which node each process runs on. All of a request or nothing; what is missing is said node by node.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

struct NodeCapacity {
  std::string name;
  double cpus = 0;  ///< cores
  double memory_bytes = 0;
  std::vector<std::string> labels;
};

enum class PlacementRule : std::uint8_t {
  pack,    ///< the first node that has room, in the order of the nodes
  spread,  ///< the node with the fewest processes of the same role
};

struct ProcessDemand {
  std::string name;  ///< "student/0"
  std::string role;  ///< "student"
  double cpus = 0;   ///< 0 = takes none
  double memory_bytes = 0;
  std::vector<std::string> labels;  ///< the node has all of them
  PlacementRule rule = PlacementRule::pack;
};

/// "a, b" -> {"a", "b"}
[[nodiscard]] std::vector<std::string> split_labels(std::string_view text);

/// Not thread-safe.
class Placement {
 public:
  explicit Placement(std::vector<NodeCapacity> nodes);

  /// Reserves room for all of `demands`. @return their nodes, in order
  /// @error overloaded  there is no room for one of them: names it and what each node lacks; nothing is reserved
  Expected<std::vector<std::string>> place(std::span<const ProcessDemand> demands);
  void release(std::string_view process);
  /// Whether processes may be placed on `node` from now on; at first they may on each.
  void set_available(std::string_view node, bool is_available);
  /// Another node for a process whose node is not available. @return none has room: it stays where it is
  std::optional<std::string> move(std::string_view process);

  [[nodiscard]] const std::vector<NodeCapacity>& nodes() const { return nodes_; }

 private:
  struct Use {
    double cpus = 0;
    double memory_bytes = 0;
    std::map<std::string, std::int32_t> roles;
  };
  struct Placed {
    ProcessDemand demand;
    std::size_t node = 0;
  };

  [[nodiscard]] std::string lacking(std::size_t node, const ProcessDemand& demand) const;
  void reserve(std::size_t node, const ProcessDemand& demand);

  std::vector<NodeCapacity> nodes_;
  std::vector<Use> used_;
  std::set<std::string, std::less<>> unavailable_;
  std::map<std::string, Placed, std::less<>> placed_;
};

}  // namespace memopd

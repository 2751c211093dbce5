// ObjectRelay: which node's object server has what others look for. Part of the head; no I/O.
//
// OR-1  a wanted object is offered by the node whose processes put it, or it fails with a reason: never neither, also when
//       that node goes down meanwhile.
// OR-2  a release reaches the node of the object and every node that has asked for it; a scope reaches all.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/cluster/messages.hpp"

namespace memopd {

class ObjectRelay {
 public:
  struct Outgoing {
    std::string node;  ///< its agent
    std::variant<OfferObject, ObjectOffered, ReleaseObjects> message;
  };

  /// The objects of this store lie with the server of `node`.
  void add_store(std::uint64_t store, const std::string& node);
  void node_up(const std::string& node) { nodes_.insert(node); }
  /// Its objects are gone.
  void node_down(const std::string& node);

  void wanted(const std::string& by_node, const ObjectWanted& wanted);
  void offered(const std::string& by_node, ObjectOffered offered);
  void released(const std::string& at_node, const ReleaseObjects& released);

  [[nodiscard]] std::vector<Outgoing> take() { return std::exchange(outgoing_, {}); }

 private:
  void fail(const ObjectRef& ref, const std::string& for_node, std::string why);

  std::map<std::uint64_t, std::string> stores_;
  std::map<std::uint64_t, std::string> lost_stores_;  ///< with the node they were lost with
  std::set<std::string> nodes_;
  std::map<ObjectRef, std::set<std::string>> copies_;              ///< nodes that have asked; until the release
  std::map<std::pair<ObjectRef, std::string>, std::string> open_;  ///< (object, who wants it) -> who was asked
  std::vector<Outgoing> outgoing_;
};

}  // namespace memopd

// ObjectRelay: which node's object server has what others look for. Part of the head; no I/O.
//
// OR-1  a wanted object is offered by the node whose processes put it, or, once that is lost, by a node with a copy; or it
//       fails with a reason: never neither, also when who offers goes down before the bytes are over.
// OR-2  a release reaches the node of the object and every node that may have a copy; a scope reaches all. What was asked
//       for before it and offered after it fails: no copy survives its release.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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
  /// Objects with copies, and objects that are asked for: what grows with use and shrinks with releases.
  [[nodiscard]] std::size_t num_known() const { return copied_.size() + open_.size(); }

 private:
  using Wish = std::pair<ObjectRef, std::string>;  // and who wants it
  struct Asked {
    std::string node;
    std::set<std::string> had_nothing;  ///< were asked before
    std::set<Scope> ended;              ///< scopes released meanwhile
  };
  struct Copied {
    Scope scope;
    std::map<std::string, std::string> from;  ///< node that got a ticket -> node that offered
  };

  /// Asks who may have it, or fails.
  void ask(const Wish& wish, Asked asked);
  [[nodiscard]] std::optional<std::string> copy_for(const Wish& wish, const Asked& asked) const;
  void fail(const Wish& wish, std::string why, ErrorCode code = ErrorCode::not_found);
  void lose_copies(const std::string& node);
  void release_one(const ObjectRef& ref, std::set<std::string>& told);
  void end_scope(const Scope& scope);

  std::map<std::uint64_t, std::string> stores_;
  std::map<std::uint64_t, std::string> lost_stores_;  ///< with the node they were lost with
  std::set<std::string> nodes_;
  std::map<ObjectRef, Copied> copied_;  ///< until the release
  std::map<Wish, Asked> open_;
  std::vector<Outgoing> outgoing_;
};

}  // namespace memopd

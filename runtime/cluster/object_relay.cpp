#include "runtime/cluster/object_relay.hpp"

#include <iterator>

namespace memopd {

void ObjectRelay::add_store(std::uint64_t store, const std::string& node) {
  stores_[store] = node;
  lost_stores_.erase(store);
}

void ObjectRelay::fail(const ObjectRef& ref, const std::string& for_node, std::string why) {
  ObjectOffered failed;
  failed.ref = ref;
  failed.for_node = for_node;
  failed.error = Error{ErrorCode::target_down, "object " + to_string(ref) + " " + std::move(why)};
  outgoing_.push_back({for_node, std::move(failed)});
}

void ObjectRelay::node_down(const std::string& node) {
  nodes_.erase(node);
  for (auto store = stores_.begin(); store != stores_.end();) {
    if (store->second == node) {
      lost_stores_[store->first] = node;
      store = stores_.erase(store);
    } else {
      ++store;
    }
  }
  for (auto open = open_.begin(); open != open_.end();) {
    const auto& [what, asked] = *open;
    if (what.second == node) {
      open = open_.erase(open);  // who wanted it is gone
    } else if (asked == node) {
      fail(what.first, what.second, "was lost with node " + node);
      open = open_.erase(open);
    } else {
      ++open;
    }
  }
  for (auto copy = copies_.begin(); copy != copies_.end();) {
    copy->second.erase(node);
    copy = copy->second.empty() || lost_stores_.contains(copy->first.high) ? copies_.erase(copy) : std::next(copy);
  }
}

void ObjectRelay::wanted(const std::string& by_node, const ObjectWanted& wanted) {
  const ObjectRef& ref = wanted.ref;
  const auto store = stores_.find(ref.high);
  if (store == stores_.end()) {
    const auto lost = lost_stores_.find(ref.high);
    fail(ref, by_node,
         lost == lost_stores_.end() ? "was put by no process of this run" : "was lost with node " + lost->second);
  } else if (store->second == by_node) {
    fail(ref, by_node, "was never put on node " + by_node);
  } else if (!nodes_.contains(store->second)) {
    fail(ref, by_node, "is on node " + store->second + ", which is not linked");
  } else {
    copies_[ref].insert(by_node);
    open_[{ref, by_node}] = store->second;
    outgoing_.push_back({store->second, OfferObject{ref, by_node}});
  }
}

void ObjectRelay::offered(const std::string& by_node, ObjectOffered offered) {
  const auto open = open_.find({offered.ref, offered.for_node});
  if (open == open_.end() || open->second != by_node) {
    return;  // an answer of an earlier start of that node
  }
  open_.erase(open);
  const std::string to = offered.for_node;
  outgoing_.push_back({to, std::move(offered)});
}

void ObjectRelay::released(const std::string& at_node, const ReleaseObjects& released) {
  std::set<std::string> told;
  if (released.scope) {
    told = nodes_;
  }
  if (released.ref) {
    if (const auto store = stores_.find(released.ref->high); store != stores_.end()) {
      told.insert(store->second);
    }
    if (const auto copies = copies_.find(*released.ref); copies != copies_.end()) {
      told.insert(copies->second.begin(), copies->second.end());
      copies_.erase(copies);
    }
  }
  told.erase(at_node);
  for (const std::string& node : told) {
    outgoing_.push_back({node, released});
  }
}

}  // namespace memopd

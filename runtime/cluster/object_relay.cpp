#include "runtime/cluster/object_relay.hpp"

#include <iterator>

namespace memopd {

void ObjectRelay::add_store(std::uint64_t store, const std::string& node) {
  stores_[store] = node;
  lost_stores_.erase(store);
}

void ObjectRelay::fail(const Wish& wish, std::string why, ErrorCode code) {
  ObjectOffered failed;
  failed.ref = wish.first;
  failed.for_node = wish.second;
  failed.error = Error{code, "object " + to_string(wish.first) + " " + std::move(why)};
  outgoing_.push_back({wish.second, std::move(failed)});
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
  std::vector<std::pair<Wish, Asked>> again;
  for (auto open = open_.begin(); open != open_.end();) {
    const bool is_for_it = open->first.second == node;
    const bool is_of_it = open->second.node == node;
    if (!is_for_it && is_of_it) {
      again.emplace_back(open->first, std::move(open->second));
    }
    open = is_for_it || is_of_it ? open_.erase(open) : std::next(open);
  }
  lose_copies(node);
  for (auto& [wish, asked] : again) {
    ask(wish, std::move(asked));
  }
}

void ObjectRelay::lose_copies(const std::string& node) {
  for (auto copied = copied_.begin(); copied != copied_.end();) {
    auto& [ref, copy] = *copied;
    copy.from.erase(node);
    for (const auto& [holder, source] : copy.from) {
      if (source == node) {
        fail({ref, holder}, "was lost with node " + node);  // who has it all knows better
      }
    }
    copied = copy.from.empty() ? copied_.erase(copied) : std::next(copied);
  }
}

void ObjectRelay::wanted(const std::string& by_node, const ObjectWanted& wanted) { ask({wanted.ref, by_node}, {}); }

void ObjectRelay::ask(const Wish& wish, Asked asked) {
  const auto& [ref, by_node] = wish;
  const auto store = stores_.find(ref.high);
  const auto lost = lost_stores_.find(ref.high);
  if (store != stores_.end() && store->second == by_node) {
    return fail(wish, "was never put on node " + by_node);
  }
  if (store != stores_.end() && !nodes_.contains(store->second)) {
    return fail(wish, "is on node " + store->second + ", which is not linked", ErrorCode::target_down);
  }
  const auto node = store != stores_.end() ? std::optional(store->second) : copy_for(wish, asked);
  if (!node) {
    return fail(
        wish, lost == lost_stores_.end() ? "was put by no process of this run" : "was lost with node " + lost->second);
  }
  asked.node = *node;
  open_[wish] = std::move(asked);
  outgoing_.push_back({*node, OfferObject{ref, by_node}});
}

std::optional<std::string> ObjectRelay::copy_for(const Wish& wish, const Asked& asked) const {
  const auto copied = copied_.find(wish.first);
  if (copied != copied_.end()) {
    for (const auto& [holder, source] : copied->second.from) {
      if (holder != wish.second && nodes_.contains(holder) && !asked.had_nothing.contains(holder)) {
        return holder;
      }
    }
  }
  return std::nullopt;
}

void ObjectRelay::offered(const std::string& by_node, ObjectOffered offered) {
  const Wish wish{offered.ref, offered.for_node};
  const auto open = open_.find(wish);
  if (open == open_.end() || open->second.node != by_node) {
    return;  // an answer of an earlier start of that node
  }
  Asked asked = std::move(open->second);
  open_.erase(open);
  if (offered.error && lost_stores_.contains(offered.ref.high)) {
    asked.had_nothing.insert(by_node);
    return ask(wish, std::move(asked));
  }
  if (!offered.error && asked.ended.contains(offered.scope)) {
    return fail(wish, "was released");
  }
  if (!offered.error) {
    Copied& copied = copied_[offered.ref];
    copied.scope = offered.scope;
    copied.from[offered.for_node] = by_node;
  }
  outgoing_.push_back({wish.second, std::move(offered)});
}

void ObjectRelay::release_one(const ObjectRef& ref, std::set<std::string>& told) {
  if (const auto store = stores_.find(ref.high); store != stores_.end()) {
    told.insert(store->second);
  }
  if (const auto copied = copied_.find(ref); copied != copied_.end()) {
    for (const auto& [holder, source] : copied->second.from) {
      told.insert(holder);
    }
    copied_.erase(copied);
  }
  for (auto open = open_.lower_bound({ref, ""}); open != open_.end() && open->first.first == ref;) {
    fail(open->first, "was released");
    open = open_.erase(open);
  }
}

void ObjectRelay::end_scope(const Scope& scope) {
  std::erase_if(copied_, [&](const auto& entry) { return entry.second.scope == scope; });
  for (auto& [wish, asked] : open_) {
    asked.ended.insert(scope);  // of what it is, its offer says
  }
}

void ObjectRelay::released(const std::string& at_node, const ReleaseObjects& released) {
  std::set<std::string> told;
  if (released.scope) {
    told = nodes_;
    end_scope(*released.scope);
  }
  if (released.ref) {
    release_one(*released.ref, told);
  }
  told.erase(at_node);
  for (const std::string& node : told) {
    outgoing_.push_back({node, released});
  }
}

}  // namespace memopd

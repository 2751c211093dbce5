#include "runtime/alignpack/prefix_tree.hpp"

#include <algorithm>

#include "runtime/base/random.hpp"

namespace memopd::detail {

// With min_shared_tokens = 1 the key is exact; beyond it is a hash, and find() compares the ids themselves.
std::uint64_t PrefixTree::child_key(std::int32_t parent, const IdSequence& ids, std::int32_t begin) const {
  std::uint64_t key =
      (static_cast<std::uint64_t>(static_cast<std::uint32_t>(parent)) << 32) | static_cast<std::uint32_t>(ids[begin]);
  for (std::int32_t i = 1; i < min_shared_tokens_; ++i) {
    key = splitmix64(key ^ static_cast<std::uint32_t>(ids[begin + i]));
  }
  return key;
}

PrefixTree::Place PrefixTree::find(const IdSequence& ids) const {
  Place place;
  while (share_prefixes_ && ids.size() - place.matched >= min_shared_tokens_) {
    const auto child = child_by_key_.find(child_key(place.node, ids, place.matched));
    if (child == child_by_key_.end()) {
      break;
    }
    const PrefixNode& node = nodes_[static_cast<std::size_t>(child->second)];
    const std::int32_t limit = std::min(node.end, ids.size());
    std::int32_t depth = place.matched;
    while (depth < limit && node.source[depth] == ids[depth]) {
      ++depth;
    }
    if (depth < node.end && node.has_children) {
      // The tail of a split stays shared among the children: it too must be long enough.
      depth = std::min(depth, node.end - min_shared_tokens_);
    }
    if (depth - place.matched < min_shared_tokens_) {
      break;
    }
    place = {child->second, depth};
    if (depth < node.end) {
      break;
    }
  }
  return place;
}

std::int32_t PrefixTree::insert(const IdSequence& ids, const Place& place) {
  if (place.matched == ids.size()) {
    return place.node;
  }
  num_tokens_ += ids.size() - place.matched;
  if (place.node == kNoNode) {
    return add_node({ids, 0, ids.size(), kNoNode});
  }
  PrefixNode& node = nodes_[static_cast<std::size_t>(place.node)];
  if (place.matched == node.end && !node.has_children) {
    // Continues what nothing else continues yet: the same run of rows, only longer.
    node.source = ids;
    node.end = ids.size();
    index_child(place.node);
    return place.node;
  }
  const std::int32_t parent = place.matched < node.end ? split(place.node, place.matched) : place.node;
  return add_node({ids, place.matched, ids.size(), parent});
}

std::int32_t PrefixTree::add_node(const PrefixNode& node) {
  const auto index = static_cast<std::int32_t>(nodes_.size());
  nodes_.push_back(node);
  if (node.parent != kNoNode) {
    nodes_[static_cast<std::size_t>(node.parent)].has_children = true;
  }
  index_child(index);
  return index;
}

// The tail keeps its number, so that sequences and children that refer to it stay right.
std::int32_t PrefixTree::split(std::int32_t tail_index, std::int32_t at) {
  const PrefixNode whole = nodes_[static_cast<std::size_t>(tail_index)];
  const auto head_index = static_cast<std::int32_t>(nodes_.size());
  nodes_.push_back({whole.source, whole.begin, at, whole.parent, true});
  child_by_key_[child_key(whole.parent, whole.source, whole.begin)] = head_index;
  PrefixNode& tail = nodes_[static_cast<std::size_t>(tail_index)];
  tail.begin = at;
  tail.parent = head_index;
  index_child(tail_index);
  return head_index;
}

void PrefixTree::index_child(std::int32_t index) {
  const PrefixNode& node = nodes_[static_cast<std::size_t>(index)];
  if (share_prefixes_ && node.end - node.begin >= min_shared_tokens_) {
    child_by_key_.try_emplace(child_key(node.parent, node.source, node.begin), index);
  }
}

}  // namespace memopd::detail

// The radix tree of the id sequences of one pack: which rows exist, and which of them an invocation occupies.
//
// A node is a run of ids between two branch points; its rows see the rows of its ancestors, then themselves. A sequence
// that ends inside a node, or that a later one continues, needs no node of its own.
// Ids are read where the invocations hold them: they must outlive the tree.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/data/invocation.hpp"

namespace memopd::detail {

/// prompt ++ response of one invocation without a copy.
class IdSequence {
 public:
  IdSequence() = default;
  explicit IdSequence(const Invocation& invocation)
      : prompt_(invocation.prompt_token_ids), response_(invocation.response_token_ids) {}

  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(prompt_.size() + response_.size()); }
  [[nodiscard]] std::int32_t operator[](std::int32_t i) const {
    const auto index = static_cast<std::size_t>(i);
    return index < prompt_.size() ? prompt_[index] : response_[index - prompt_.size()];
  }

 private:
  std::span<const std::int32_t> prompt_;
  std::span<const std::int32_t> response_;
};

inline constexpr std::int32_t kNoNode = -1;

/// Ids [begin, end) of `source`; depth of the node's first row = its position = begin.
struct PrefixNode {
  IdSequence source;
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::int32_t parent = kNoNode;
  bool has_children = false;
};

class PrefixTree {
 public:
  /// @param min_shared_tokens  >= 1; no run that several sequences share is shorter
  PrefixTree(bool share_prefixes, std::int32_t min_shared_tokens)
      : share_prefixes_(share_prefixes), min_shared_tokens_(min_shared_tokens) {}

  /// Where `ids` leaves the tree: `matched` ids are there already, the last of them at `node`.
  struct Place {
    std::int32_t node = kNoNode;
    std::int32_t matched = 0;
  };
  [[nodiscard]] Place find(const IdSequence& ids) const;

  /// Adds what `ids` has beyond `place` = find(ids), which must be fresh.
  /// @return  the node that holds its last id; once later sequences split it, that id stands in it or in an ancestor
  std::int32_t insert(const IdSequence& ids, const Place& place);

  [[nodiscard]] const std::vector<PrefixNode>& nodes() const { return nodes_; }
  [[nodiscard]] std::int32_t num_tokens() const { return num_tokens_; }

 private:
  [[nodiscard]] std::uint64_t child_key(std::int32_t parent, const IdSequence& ids, std::int32_t begin) const;
  std::int32_t add_node(const PrefixNode& node);
  /// Cuts `tail_index` at depth `at`. @return  the new node, its head
  std::int32_t split(std::int32_t tail_index, std::int32_t at);
  /// Makes a node findable from its parent, if it is long enough; of two with the same key the first stays.
  void index_child(std::int32_t index);

  bool share_prefixes_;
  std::int32_t min_shared_tokens_;
  std::int32_t num_tokens_ = 0;
  std::vector<PrefixNode> nodes_;
  std::unordered_map<std::uint64_t, std::int32_t> child_by_key_;  ///< looked up, never iterated
};

}  // namespace memopd::detail

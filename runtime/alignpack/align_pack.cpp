#include "runtime/alignpack/align_pack.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "runtime/alignpack/prefix_tree.hpp"

namespace memopd {
namespace {

using detail::IdSequence;
using detail::kNoNode;
using detail::PrefixNode;
using detail::PrefixTree;

std::string name_of(const Invocation& invocation) {
  return "trajectory " + to_string(invocation.trajectory_id) + ", invocation " +
         std::to_string(invocation.invocation_index);
}

Expected<void> check_ids(const Invocation& invocation, const std::vector<std::int32_t>& ids, const char* what) {
  const auto negative = std::find_if(ids.begin(), ids.end(), [](std::int32_t id) { return id < 0; });
  if (negative != ids.end()) {
    return unexpected(ErrorCode::invalid_argument, name_of(invocation) + ": " + what + " token " +
                                                       std::to_string(negative - ids.begin()) + " has id " +
                                                       std::to_string(*negative) + ", allowed >= 0");
  }
  return {};
}

Expected<void> check_invocation(const Invocation& invocation, std::int32_t max_tokens) {
  if (invocation.prompt_token_ids.empty()) {
    return unexpected(ErrorCode::invalid_argument, name_of(invocation) + ": the prompt is empty");
  }
  const std::size_t size = invocation.prompt_token_ids.size() + invocation.response_token_ids.size();
  if (size > static_cast<std::size_t>(max_tokens)) {
    return unexpected(ErrorCode::invocation_too_long, name_of(invocation) + ": " + std::to_string(size) +
                                                          " tokens exceed max_tokens " + std::to_string(max_tokens));
  }
  MEMOPD_RETURN_IF_ERROR(check_ids(invocation, invocation.prompt_token_ids, "prompt"));
  return check_ids(invocation, invocation.response_token_ids, "response");
}

Expected<void> check_options(const AlignPackOptions& options) {
  if (options.max_tokens < 1) {
    return unexpected(ErrorCode::invalid_argument,
                      "max_tokens is " + std::to_string(options.max_tokens) + ", allowed >= 1");
  }
  if (options.min_shared_tokens < 1) {
    return unexpected(ErrorCode::invalid_argument,
                      "min_shared_tokens is " + std::to_string(options.min_shared_tokens) + ", allowed >= 1");
  }
  return {};
}

/// Collects the invocations of one pack, then lays its rows out.
class PackBuilder {
 public:
  explicit PackBuilder(const AlignPackOptions& options)
      : max_tokens_(options.max_tokens), tree_(options.share_prefixes, options.min_shared_tokens) {}

  /// @return  false, and nothing added, when the invocation does not fit beside those that are here
  bool try_add(const Invocation& invocation) {
    const IdSequence ids(invocation);
    const PrefixTree::Place place = tree_.find(ids);
    // An invocation adds at most a branch and a leaf to the tree, each seeing at most its own tokens: this bounds K (and
    // so R) below what 32-bit indices can say, however much is shared.
    const std::int64_t bound = visible_bound_ + 2 * std::int64_t{ids.size()};
    const bool fits = ids.size() - place.matched <= max_tokens_ - tree_.num_tokens() &&
                      bound <= std::numeric_limits<std::int32_t>::max();
    if (!fits && !members_.empty()) {
      return false;
    }
    visible_bound_ = bound;
    members_.push_back({&invocation, tree_.insert(ids, place)});
    return true;
  }

  [[nodiscard]] bool is_empty() const { return members_.empty(); }

  /// Rows in order of first use, so that parents precede children.
  [[nodiscard]] PackedBatch build() {
    pack_ = {};
    pack_.cu_seqlens_q.push_back(0);
    pack_.cu_seqlens_k.push_back(0);
    pack_.input_ids.reserve(static_cast<std::size_t>(tree_.num_tokens()));
    pack_.position_ids.reserve(static_cast<std::size_t>(tree_.num_tokens()));
    pack_.invocations.reserve(members_.size());
    segment_of_node_.assign(tree_.nodes().size(), kNoNode);
    for (const Member& member : members_) {
      add_invocation(*member.invocation, lay_out(member));
    }
    return std::move(pack_);
  }

 private:
  struct Member {
    const Invocation* invocation;
    std::int32_t node;
  };

  /// Adds the segments that `member` is the first to use. @return  the segment at or below its last row
  std::int32_t lay_out(const Member& member) {
    path_.clear();
    for (std::int32_t index = member.node; index != kNoNode && segment_of(index) == kNoNode;
         index = node(index).parent) {
      path_.push_back(index);
    }
    for (auto it = path_.rbegin(); it != path_.rend(); ++it) {
      add_segment(*it);
    }
    return segment_of(member.node);
  }

  void add_segment(std::int32_t index) {
    const PrefixNode& run = node(index);
    if (run.parent != kNoNode) {
      const auto parent_segment = static_cast<std::size_t>(segment_of(run.parent));
      const auto chain_begin = static_cast<std::size_t>(pack_.cu_seqlens_k[parent_segment]);
      const auto chain_end = static_cast<std::size_t>(pack_.cu_seqlens_k[parent_segment + 1]);
      for (std::size_t k = chain_begin; k < chain_end; ++k) {
        pack_.kv_index.push_back(pack_.kv_index[k]);
      }
    }
    for (std::int32_t position = run.begin; position < run.end; ++position) {
      pack_.kv_index.push_back(pack_.num_tokens());
      pack_.input_ids.push_back(run.source[position]);
      pack_.position_ids.push_back(position);
    }
    segment_of_node_[static_cast<std::size_t>(index)] = pack_.num_segments();
    pack_.cu_seqlens_q.push_back(pack_.num_tokens());
    pack_.cu_seqlens_k.push_back(static_cast<std::int32_t>(pack_.kv_index.size()));
  }

  /// The rows a segment sees are in position order from 0: its k-th is the row at position k.
  void add_invocation(const Invocation& invocation, std::int32_t segment) {
    const auto rows_begin = static_cast<std::size_t>(pack_.cu_seqlens_k[static_cast<std::size_t>(segment)]);
    const std::size_t last_prompt_row = rows_begin + invocation.prompt_token_ids.size() - 1;
    PackedInvocation entry{
        invocation.trajectory_id, invocation.attempt, invocation.invocation_index, pack_.num_response_tokens(), 0,
        invocation.digest};
    for (std::size_t j = 0; j < invocation.response_token_ids.size(); ++j) {
      pack_.response_index.push_back(pack_.kv_index[last_prompt_row + j]);
      pack_.response_token_ids.push_back(invocation.response_token_ids[j]);
    }
    entry.response_end = pack_.num_response_tokens();
    pack_.invocations.push_back(std::move(entry));
  }

  [[nodiscard]] const PrefixNode& node(std::int32_t index) const {
    return tree_.nodes()[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] std::int32_t segment_of(std::int32_t index) const {
    return segment_of_node_[static_cast<std::size_t>(index)];
  }

  std::int32_t max_tokens_;
  PrefixTree tree_;
  std::int64_t visible_bound_ = 0;
  std::vector<Member> members_;
  PackedBatch pack_;
  std::vector<std::int32_t> segment_of_node_;
  std::vector<std::int32_t> path_;
};

}  // namespace

Expected<std::vector<PackedBatch>> align_pack(std::span<const Invocation* const> invocations,
                                              const AlignPackOptions& options) {
  MEMOPD_RETURN_IF_ERROR(check_options(options));
  std::vector<PackedBatch> packs;
  PackBuilder builder(options);
  for (const Invocation* invocation : invocations) {
    MEMOPD_RETURN_IF_ERROR(check_invocation(*invocation, options.max_tokens));
    if (!builder.try_add(*invocation)) {
      packs.push_back(builder.build());
      builder = PackBuilder(options);
      builder.try_add(*invocation);
    }
  }
  if (!builder.is_empty()) {
    packs.push_back(builder.build());
  }
  return packs;
}

Expected<std::vector<PackedBatch>> align_pack(std::span<const Trajectory> trajectories,
                                              const AlignPackOptions& options) {
  std::vector<const Invocation*> invocations;
  for (const Trajectory& trajectory : trajectories) {
    for (const Invocation& invocation : trajectory.invocations) {
      invocations.push_back(&invocation);
    }
  }
  return align_pack(invocations, options);
}

}  // namespace memopd

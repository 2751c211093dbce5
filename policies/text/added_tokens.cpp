#include "policies/text/added_tokens.hpp"

namespace memopd {

std::int32_t AddedTokenMatcher::child(std::int32_t node, char byte) const {
  for (const auto& [edge, target] : nodes_[static_cast<std::size_t>(node)].children) {
    if (edge == byte) {
      return target;
    }
  }
  return kNone;
}

void AddedTokenMatcher::add(std::string_view content, std::int32_t id) {
  begins_token_[static_cast<std::uint8_t>(content.front())] = true;
  std::int32_t node = 0;
  for (const char byte : content) {
    std::int32_t next = child(node, byte);
    if (next == kNone) {
      next = static_cast<std::int32_t>(nodes_.size());
      nodes_.emplace_back();
      nodes_[static_cast<std::size_t>(node)].children.emplace_back(byte, next);
    }
    node = next;
  }
  nodes_[static_cast<std::size_t>(node)].id = id;
}

std::optional<AddedTokenMatcher::Match> AddedTokenMatcher::find(std::string_view text, std::size_t from) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_token_[static_cast<std::uint8_t>(text[begin])]) {
      continue;
    }
    std::optional<Match> longest;
    std::int32_t node = 0;
    for (std::size_t end = begin; end < text.size(); ++end) {
      node = child(node, text[end]);
      if (node == kNone) {
        break;
      }
      if (const std::int32_t id = nodes_[static_cast<std::size_t>(node)].id; id != kNone) {
        longest = Match{begin, end + 1, id};
      }
    }
    if (longest) {
      return longest;
    }
  }
  return std::nullopt;
}

}  // namespace memopd

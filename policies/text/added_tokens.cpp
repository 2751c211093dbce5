#include "policies/text/added_tokens.hpp"

#include "runtime/base/check.hpp"
#include "runtime/text/character_class.hpp"
#include "runtime/text/regex.hpp"
#include "runtime/text/unicode.hpp"

namespace memopd {
namespace {

bool is_space(std::string_view character) {
  return !character.empty() && classify(character_classes(), character, 0).kind == CharacterClass::space;
}

/// \w of Rust's regular expressions.
bool is_word(std::string_view character) {
  static const Regex pattern = [] {
    auto compiled = Regex::compile("[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\u200C\\u200D]");
    MEMOPD_CHECK(compiled.has_value(), "a pattern of our own");
    return *compiled;
  }();
  return !character.empty() && pattern.is_found_in(character);
}

}  // namespace

std::int32_t AddedTokenMatcher::child(std::int32_t node, char byte) const {
  for (const auto& [edge, target] : nodes_[static_cast<std::size_t>(node)].children) {
    if (edge == byte) {
      return target;
    }
  }
  return kNone;
}

void AddedTokenMatcher::add(std::string_view content, const AddedToken& token) {
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
  nodes_[static_cast<std::size_t>(node)].token = &token;
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
      if (const AddedToken* token = nodes_[static_cast<std::size_t>(node)].token) {
        longest = Match{begin, end + 1, token};
      }
    }
    if (longest) {
      return longest;
    }
  }
  return std::nullopt;
}

bool AddedTokenMatcher::counts(std::string_view text, const Match& match, bool special_tokens) {
  if (match.token->is_special && !special_tokens) {
    return false;
  }
  return !match.token->is_single_word ||
         (!is_word(last_character(text.substr(0, match.begin))) && !is_word(first_character(text.substr(match.end))));
}

void AddedTokenMatcher::strip(std::string_view text, std::size_t given, Match& match) {
  const auto before = [&] { return last_character(text.substr(0, match.begin)); };
  while (match.token->strips_left && match.begin > given && is_space(before())) {
    match.begin -= before().size();
  }
  const auto behind = [&] { return first_character(text.substr(match.end)); };
  while (match.token->strips_right && is_space(behind())) {
    match.end += behind().size();
  }
}

}  // namespace memopd

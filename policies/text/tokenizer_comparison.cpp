#include "policies/text/tokenizer_comparison.hpp"

#include <algorithm>

namespace memopd {
namespace {

constexpr std::size_t kMaxListed = 10;

/// Special tokens of `of` that `other` has not, by text.
std::vector<std::string> special_only(const Tokenizer& of, const Tokenizer& other) {
  std::vector<std::string> texts;
  for (std::int32_t id = 0; id < of.vocab_size(); ++id) {
    const auto same = of.is_special(id) ? other.token_id(of.token_bytes(id)) : std::nullopt;
    if (of.is_special(id) && (!same || !other.is_special(*same))) {
      texts.emplace_back(of.token_bytes(id));
    }
  }
  return texts;
}

}  // namespace

TokenizerComparison compare_tokenizers(const Tokenizer& a, const Tokenizer& b) {
  TokenizerComparison result;
  result.vocab_size_a = a.vocab_size();
  result.vocab_size_b = b.vocab_size();
  const std::int32_t smaller = std::min(result.vocab_size_a, result.vocab_size_b);
  result.shared_prefix = smaller;
  for (std::int32_t id = 0; id < smaller; ++id) {
    if (a.token_bytes(id) != b.token_bytes(id)) {
      result.shared_prefix = std::min(result.shared_prefix, id);
      ++result.num_differing_ids;
      if (result.differing_ids.size() < kMaxListed) {
        result.differing_ids.push_back(id);
      }
    }
  }
  result.special_only_a = special_only(a, b);
  result.special_only_b = special_only(b, a);
  for (std::int32_t id = 0; id < result.vocab_size_a; ++id) {
    const auto other = a.is_special(id) ? b.token_id(a.token_bytes(id)) : std::nullopt;
    if (other && b.is_special(*other) && *other != id) {
      result.special_moved.emplace_back(a.token_bytes(id));
    }
  }
  return result;
}

std::optional<TextDifference> compare_on_text(const Tokenizer& a, const Tokenizer& b, std::string_view text) {
  TextDifference difference{0, 0, a.encode(text, {.special_tokens = true}), b.encode(text, {.special_tokens = true})};
  if (difference.ids_a == difference.ids_b) {
    return std::nullopt;
  }
  const auto& ids = difference.ids_a;
  const auto first = std::mismatch(ids.begin(), ids.end(), difference.ids_b.begin(), difference.ids_b.end()).first;
  difference.index = static_cast<std::size_t>(first - ids.begin());
  for (auto id = ids.begin(); id != first; ++id) {
    difference.byte_offset += a.token_bytes(*id).size();
  }
  return difference;
}

}  // namespace memopd

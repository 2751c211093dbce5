// How two tokenizers differ, for a person who wants one model to teach another.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policies/text/tokenizer.hpp"

namespace memopd {

struct TokenizerComparison {
  std::int32_t vocab_size_a = 0;
  std::int32_t vocab_size_b = 0;
  /// Ids [0, shared_prefix) spell the same in both: the largest scored_vocab that check_compatible() accepts.
  std::int32_t shared_prefix = 0;
  /// Ids below both sizes that spell something else, the first ten of them.
  std::vector<std::int32_t> differing_ids;
  std::int32_t num_differing_ids = 0;
  std::vector<std::string> special_only_a;  ///< special tokens of one that are no special tokens of the other
  std::vector<std::string> special_only_b;
  std::vector<std::string> special_moved;  ///< special in both, under different ids
};

/// O(ids). Pure, thread-safe.
[[nodiscard]] TokenizerComparison compare_tokenizers(const Tokenizer& a, const Tokenizer& b);

struct TextDifference {
  std::size_t index = 0;        ///< of the first id that is not the same; one list may end there
  std::size_t byte_offset = 0;  ///< bytes of the ids before it, by `a`
  std::vector<std::int32_t> ids_a;
  std::vector<std::int32_t> ids_b;
};

/// Where the ids of `text` part; nothing if both give the same. With special tokens.
[[nodiscard]] std::optional<TextDifference> compare_on_text(const Tokenizer& a, const Tokenizer& b,
                                                            std::string_view text);

}  // namespace memopd

// Trains a byte-level BPE vocabulary: the most frequent neighbouring pair becomes a token, again and again.
//
// Ids: 0..255 the bytes in the order of the GPT-2 alphabet ('!' first), then the merges in the order they were found,
// then `added_tokens`, then `special_tokens`. Ties in frequency go to the lexicographically smallest pair of ids
// (left, right). The result depends on the multiset of texts only, not on their order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "policies/text/tokenizer.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/text/unicode.hpp"

namespace memopd {

struct BpeTrainOptions {
  std::int32_t vocab_size = 2048;                ///< V wanted, all kinds together; >= 256 + added + special
  std::int32_t min_frequency = 2;                ///< a rarer pair is not merged, so V may stay below; >= 1
  std::vector<std::string> added_tokens = {};    ///< never cut, not special: tags of the agent protocol
  std::vector<std::string> special_tokens = {};  ///< never cut, found only when asked for
  std::string eos_token = {};                    ///< one of special_tokens; empty = none
  std::string pattern = {};                      ///< pre-tokenizer regular expression; empty = Qwen2's
  NormalForm normal_form = NormalForm::nfc;      ///< nfc as Qwen2; none = decode(encode(text)) == text
};

/// @param texts  any bytes; added and special tokens in them are cut out first and do not count
/// @error invalid_argument  a value out of range, an empty or repeated token, an eos_token that is not special
/// @error parse_error       the pattern
/// O(total bytes + merges * words touched). Copies what it keeps.
Expected<Tokenizer> train_bpe(std::span<const std::string> texts, const BpeTrainOptions& options);

}  // namespace memopd

// The merge rules of a byte-level BPE vocabulary, applied to one piece of pre-tokenized text.
//
// BPE-1  the pair of lowest rank is merged first, the leftmost of equals; equal to merging rule after rule.
// BPE-2  every byte that text needs has a token. Control characters and bytes that begin no assigned character may lack
//        one, as SmolLM2's do; such a byte gives no id, as in `tokenizers`.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

struct BpeToken {
  std::string bytes;
  /// In the file as literal text outside the byte alphabet: it has an id and bytes, but no merge leads to it.
  bool is_literal = false;
  bool is_present = false;  ///< false for ids that the vocabulary leaves out
};

/// Tokens `left` and `right`, side by side, become `merged`. Rank = place in the list.
struct BpeMerge {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t merged = 0;
};

/// Immutable after create(), thread-safe.
class BpeModel {
 public:
  /// @param tokens  by id
  /// @param merges  ids in [0, tokens.size()); the bytes of `merged` are those of left ++ right
  /// @param ignore_merges  a piece that is a token is that token, even where the merges do not lead to it (Llama 3)
  /// @error unsupported  a byte without a token that BPE-2 wants
  static Expected<BpeModel> create(std::vector<BpeToken> tokens, std::vector<BpeMerge> merges, bool ignore_merges);

  /// Appends the ids of `piece` to `ids`. O(n log n); O(1) for a piece that is a word of the vocabulary.
  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const;

  [[nodiscard]] const std::vector<BpeToken>& tokens() const { return tokens_; }
  [[nodiscard]] const std::vector<BpeMerge>& merges() const { return merges_; }
  [[nodiscard]] bool ignores_merges() const { return ignore_merges_; }
  /// Bytes without a token, ascending; nearly always none.
  [[nodiscard]] std::vector<std::uint8_t> missing_bytes() const;

 private:
  /// A merge in an open-addressed table: one cache line answers most look-ups. rank < 0 = empty.
  struct Rule {
    std::int32_t left = 0;
    std::int32_t right = 0;
    std::int32_t rank = -1;
    std::int32_t merged = 0;
  };
  /// A piece that is one token; id < 0 = empty. The hash tells nearly all others apart without reading their bytes.
  struct Word {
    std::uint32_t hash = 0;
    std::int32_t id = -1;
  };

  BpeModel() = default;
  void index_rules();
  void index_words();
  [[nodiscard]] const Rule* find_rule(std::int32_t left, std::int32_t right) const;
  [[nodiscard]] std::int32_t find_word(std::string_view piece) const;
  void merge_short(std::string_view piece, std::vector<std::int32_t>& ids) const;
  void merge_long(std::string_view piece, std::vector<std::int32_t>& ids) const;
  void merge(std::string_view piece, std::vector<std::int32_t>& ids) const;

  std::vector<BpeToken> tokens_;
  std::vector<BpeMerge> merges_;
  bool ignore_merges_ = false;
  std::array<std::int32_t, 256> byte_ids_{};  // kNone (-1) = missing
  std::vector<Rule> rules_;                   // size a power of two, at most half full
  /// Pieces that become one token. Most pieces of ordinary text are here; filled once, so reading needs no lock.
  std::vector<Word> words_;  // size a power of two, at most half full
};

}  // namespace memopd

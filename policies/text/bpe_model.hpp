// The merge rules of a byte-level BPE vocabulary, applied to one piece of pre-tokenized text.
//
// BPE-1  the pair of lowest rank is merged first, the leftmost of equals; equal to merging rule after rule.
// BPE-2  every byte has a token, so every piece can be encoded.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
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

/// Immutable after create(), thread-safe; not copied, since it points into itself.
class BpeModel {
 public:
  /// @param tokens  by id
  /// @param merges  ids in [0, tokens.size()); the bytes of `merged` are those of left ++ right
  /// @param ignore_merges  a piece that is a token is that token, even where the merges do not lead to it (Llama 3)
  /// @error unsupported  a byte without a token
  static Expected<BpeModel> create(std::vector<BpeToken> tokens, std::vector<BpeMerge> merges, bool ignore_merges);

  BpeModel(BpeModel&&) = default;
  BpeModel& operator=(BpeModel&&) = default;

  /// Appends the ids of `piece` to `ids`. O(n log n).
  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const;

  [[nodiscard]] const std::vector<BpeToken>& tokens() const { return tokens_; }
  [[nodiscard]] const std::vector<BpeMerge>& merges() const { return merges_; }
  [[nodiscard]] bool ignores_merges() const { return ignore_merges_; }

 private:
  struct Rule {
    std::int32_t rank = 0;
    std::int32_t merged = 0;
  };

  BpeModel() = default;
  [[nodiscard]] const Rule* find_rule(std::int32_t left, std::int32_t right) const;
  void merge(std::string_view piece, std::vector<std::int32_t>& ids) const;
  void index_words();

  std::vector<BpeToken> tokens_;
  std::vector<BpeMerge> merges_;
  bool ignore_merges_ = false;
  std::array<std::int32_t, 256> byte_ids_{};
  std::unordered_map<std::uint64_t, Rule> rules_;
  /// Pieces that become one token. Most pieces of ordinary text are here; filled once, so reading needs no lock.
  std::unordered_map<std::string_view, std::int32_t> words_;
};

}  // namespace memopd

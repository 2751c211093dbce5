#include "policies/text/bpe_model.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include "policies/text/byte_alphabet.hpp"

namespace memopd {
namespace {

constexpr std::int32_t kNone = -1;
constexpr std::int32_t kNoRank = std::numeric_limits<std::int32_t>::max();
/// Up to here looking through all pairs is faster than keeping them in a heap.
constexpr std::size_t kMaxShortPiece = 48;

std::size_t pair_hash(std::int32_t left, std::int32_t right) {
  const std::uint64_t key =
      (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) | static_cast<std::uint32_t>(right);
  return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15ULL) >> 29);
}

/// Eight bytes at a time, the rest as one word; pieces are short.
std::uint32_t piece_hash(std::string_view piece) {
  const auto mix = [](std::uint64_t hash, std::uint64_t word) {
    hash = (hash ^ word) * 0x9FB21C651E98DF25ULL;
    return hash ^ (hash >> 32);
  };
  std::uint64_t hash = piece.size() * 0xBF58476D1CE4E5B9ULL;
  std::uint64_t word = 0;
  std::size_t offset = 0;
  for (; offset + 8 <= piece.size(); offset += 8) {
    std::memcpy(&word, piece.data() + offset, 8);
    hash = mix(hash, word);
  }
  word = 0;
  for (; offset < piece.size(); ++offset) {
    word = (word << 8) | static_cast<std::uint8_t>(piece[offset]);
  }
  return static_cast<std::uint32_t>(mix(hash, word) >> 7);
}

/// Neither a control character that text does without nor a byte that begins no assigned character.
bool is_needed(std::uint8_t byte) {
  const bool is_white_space = byte >= '\t' && byte <= '\r';
  return byte < 0x80 ? (byte >= 0x20 && byte != 0x7F) || is_white_space : byte != 0xC0 && byte != 0xC1 && byte <= 0xF0;
}

/// Entries of a table that is at most half full.
std::size_t table_size(std::size_t num_entries) { return std::bit_ceil(2 * num_entries + 2); }

/// A token of the piece in a doubly linked list; `next` is kNone at the end, id is kNone once merged away.
struct Symbol {
  std::int32_t id = kNone;
  std::int32_t previous = kNone;
  std::int32_t next = kNone;
};

/// A pair that stood at `position` when it was queued; it may have changed since.
struct Candidate {
  std::int32_t rank = 0;
  std::int32_t position = 0;
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t merged = 0;

  /// Orders a heap whose top is the lowest rank, then the leftmost.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return std::tie(a.rank, a.position) > std::tie(b.rank, b.position);
  }
};

}  // namespace

Expected<BpeModel> BpeModel::create(std::vector<BpeToken> tokens, std::vector<BpeMerge> merges, bool ignore_merges) {
  BpeModel model;
  model.tokens_ = std::move(tokens);
  model.merges_ = std::move(merges);
  model.ignore_merges_ = ignore_merges;
  model.byte_ids_.fill(kNone);
  for (std::size_t id = 0; id < model.tokens_.size(); ++id) {
    const BpeToken& token = model.tokens_[id];
    if (token.is_present && !token.is_literal && token.bytes.size() == 1) {
      model.byte_ids_[static_cast<std::uint8_t>(token.bytes[0])] = static_cast<std::int32_t>(id);
    }
  }
  for (const std::uint8_t byte : bytes_in_alphabet_order()) {
    if (model.byte_ids_[byte] == kNone && is_needed(byte)) {
      return unexpected(ErrorCode::unsupported, "no token for byte " + std::to_string(byte) + " (\"" +
                                                    to_byte_alphabet(std::string(1, static_cast<char>(byte))) +
                                                    "\"), which text needs");
    }
  }
  model.index_rules();
  model.index_words();
  return model;
}

std::vector<std::uint8_t> BpeModel::missing_bytes() const {
  std::vector<std::uint8_t> missing;
  for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    if (byte_ids_[byte] == kNone) {
      missing.push_back(static_cast<std::uint8_t>(byte));
    }
  }
  return missing;
}

void BpeModel::index_rules() {
  rules_.resize(table_size(merges_.size()));
  for (std::size_t rank = 0; rank < merges_.size(); ++rank) {
    const BpeMerge& merge = merges_[rank];
    std::size_t slot = pair_hash(merge.left, merge.right) & (rules_.size() - 1);
    while (rules_[slot].rank >= 0 && (rules_[slot].left != merge.left || rules_[slot].right != merge.right)) {
      slot = (slot + 1) & (rules_.size() - 1);
    }
    rules_[slot] = {merge.left, merge.right, static_cast<std::int32_t>(rank), merge.merged};
  }
}

void BpeModel::index_words() {
  std::vector<std::int32_t> ids;
  words_.resize(table_size(tokens_.size()));
  for (std::size_t index = 0; index < tokens_.size(); ++index) {
    const BpeToken& token = tokens_[index];
    if (!token.is_present || token.is_literal || token.bytes.empty()) {
      continue;
    }
    const auto id = static_cast<std::int32_t>(index);
    ids.clear();
    if (!ignore_merges_) {
      merge(token.bytes, ids);
    }
    if (ignore_merges_ || (ids.size() == 1 && ids[0] == id)) {
      const std::uint32_t hash = piece_hash(token.bytes);
      std::size_t slot = hash & (words_.size() - 1);
      while (words_[slot].id >= 0) {
        slot = (slot + 1) & (words_.size() - 1);
      }
      words_[slot] = {hash, id};
    }
  }
}

const BpeModel::Rule* BpeModel::find_rule(std::int32_t left, std::int32_t right) const {
  for (std::size_t slot = pair_hash(left, right);; ++slot) {
    const Rule& rule = rules_[slot & (rules_.size() - 1)];
    if (rule.rank < 0) {
      return nullptr;
    }
    if (rule.left == left && rule.right == right) {
      return &rule;
    }
  }
}

std::int32_t BpeModel::find_word(std::string_view piece) const {
  const std::uint32_t hash = piece_hash(piece);
  for (std::size_t slot = hash;; ++slot) {
    const Word& word = words_[slot & (words_.size() - 1)];
    if (word.id < 0) {
      return kNone;
    }
    if (word.hash == hash && tokens_[static_cast<std::size_t>(word.id)].bytes == piece) {
      return word.id;
    }
  }
}

void BpeModel::encode(std::string_view piece, std::vector<std::int32_t>& ids) const {
  if (const std::int32_t id = find_word(piece); id != kNone) {
    ids.push_back(id);
  } else {
    merge(piece, ids);
  }
}

void BpeModel::merge(std::string_view piece, std::vector<std::int32_t>& ids) const {
  if (piece.size() <= kMaxShortPiece) {
    merge_short(piece, ids);
  } else {
    merge_long(piece, ids);
  }
}

void BpeModel::merge_short(std::string_view piece, std::vector<std::int32_t>& ids) const {
  std::array<std::int32_t, kMaxShortPiece> symbols;
  std::array<std::int32_t, kMaxShortPiece> ranks;  // of the pair that begins there; kNoRank = no rule
  std::array<std::int32_t, kMaxShortPiece> merged;
  std::size_t size = 0;
  const auto look_up = [&](std::size_t i) {
    const Rule* rule = i + 1 < size ? find_rule(symbols[i], symbols[i + 1]) : nullptr;
    ranks[i] = rule == nullptr ? kNoRank : rule->rank;
    merged[i] = rule == nullptr ? kNone : rule->merged;
  };
  for (const char byte : piece) {
    symbols[size] = byte_ids_[static_cast<std::uint8_t>(byte)];
    size += symbols[size] == kNone ? 0 : 1;
  }
  for (std::size_t i = 0; i < size; ++i) {
    look_up(i);
  }
  while (size > 1) {
    const auto best = static_cast<std::size_t>(std::min_element(ranks.begin(), ranks.begin() + size) - ranks.begin());
    if (ranks[best] == kNoRank) {
      break;
    }
    symbols[best] = merged[best];
    for (std::size_t i = best + 1; i + 1 < size; ++i) {
      symbols[i] = symbols[i + 1];
      ranks[i] = ranks[i + 1];
      merged[i] = merged[i + 1];
    }
    --size;
    look_up(best);
    if (best > 0) {
      look_up(best - 1);
    }
  }
  ids.insert(ids.end(), symbols.begin(), symbols.begin() + size);
}

void BpeModel::merge_long(std::string_view piece, std::vector<std::int32_t>& ids) const {
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  std::vector<Candidate> heap;
  const auto at = [&symbols](std::int32_t position) -> Symbol& { return symbols[static_cast<std::size_t>(position)]; };
  const auto enqueue = [&](std::int32_t position) {
    const Symbol& left = at(position);
    if (left.next == kNone) {
      return;
    }
    if (const Rule* rule = find_rule(left.id, at(left.next).id)) {
      heap.push_back({rule->rank, position, left.id, at(left.next).id, rule->merged});
      std::push_heap(heap.begin(), heap.end());
    }
  };
  for (const char byte : piece) {
    const auto position = static_cast<std::int32_t>(symbols.size());
    if (const std::int32_t id = byte_ids_[static_cast<std::uint8_t>(byte)]; id != kNone) {
      symbols.push_back({id, position - 1, position + 1});
    }
  }
  if (symbols.empty()) {
    return;
  }
  symbols.back().next = kNone;
  const auto size = static_cast<std::int32_t>(symbols.size());
  for (std::int32_t i = 0; i < size; ++i) {
    enqueue(i);
  }
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const Candidate top = heap.back();
    heap.pop_back();
    Symbol& left = at(top.position);
    if (left.id != top.left || left.next == kNone || at(left.next).id != top.right) {
      continue;
    }
    Symbol& right = at(left.next);
    left.id = top.merged;
    left.next = right.next;
    right.id = kNone;
    if (left.next != kNone) {
      at(left.next).previous = top.position;
    }
    enqueue(top.position);
    if (left.previous != kNone) {
      enqueue(left.previous);
    }
  }
  for (std::int32_t i = 0; i != kNone; i = at(i).next) {
    ids.push_back(at(i).id);
  }
}

}  // namespace memopd

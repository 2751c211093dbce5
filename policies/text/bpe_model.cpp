#include "policies/text/bpe_model.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "policies/text/byte_alphabet.hpp"

namespace memopd {
namespace {

constexpr std::int32_t kNone = -1;

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) | static_cast<std::uint32_t>(right);
}

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
    if (model.byte_ids_[byte] == kNone) {
      return unexpected(ErrorCode::unsupported, "vocabulary: no token for byte " + std::to_string(byte) + " (\"" +
                                                    to_byte_alphabet(std::string(1, static_cast<char>(byte))) +
                                                    "\"), byte-level BPE needs all 256");
    }
  }
  model.rules_.reserve(model.merges_.size());
  for (std::size_t rank = 0; rank < model.merges_.size(); ++rank) {
    const BpeMerge& merge = model.merges_[rank];
    model.rules_[pair_key(merge.left, merge.right)] = {static_cast<std::int32_t>(rank), merge.merged};
  }
  model.index_words();
  return model;
}

void BpeModel::index_words() {
  std::vector<std::int32_t> ids;
  words_.reserve(tokens_.size());
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
      words_.emplace(token.bytes, id);
    }
  }
}

const BpeModel::Rule* BpeModel::find_rule(std::int32_t left, std::int32_t right) const {
  const auto found = rules_.find(pair_key(left, right));
  return found == rules_.end() ? nullptr : &found->second;
}

void BpeModel::encode(std::string_view piece, std::vector<std::int32_t>& ids) const {
  if (const auto word = words_.find(piece); word != words_.end()) {
    ids.push_back(word->second);
  } else {
    merge(piece, ids);
  }
}

void BpeModel::merge(std::string_view piece, std::vector<std::int32_t>& ids) const {
  const auto size = static_cast<std::int32_t>(piece.size());
  std::vector<Symbol> symbols(piece.size());
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
  for (std::int32_t i = 0; i < size; ++i) {
    at(i) = {byte_ids_[static_cast<std::uint8_t>(piece[static_cast<std::size_t>(i)])], i - 1,
             i + 1 == size ? kNone : i + 1};
  }
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
  for (std::int32_t i = size == 0 ? kNone : 0; i != kNone; i = at(i).next) {
    ids.push_back(at(i).id);
  }
}

}  // namespace memopd

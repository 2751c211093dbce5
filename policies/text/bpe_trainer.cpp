#include "policies/text/bpe_trainer.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "policies/text/byte_alphabet.hpp"
#include "policies/text/tokenizer_json.hpp"

namespace memopd {
namespace {

using Pair = std::pair<std::int32_t, std::int32_t>;

struct Word {
  std::vector<std::int32_t> ids;
  std::int64_t count = 0;
};

/// Orders a queue whose top is the most frequent pair, then the smallest (left, right).
struct QueuedPair {
  std::int64_t count = 0;
  Pair pair;
  friend bool operator<(const QueuedPair& a, const QueuedPair& b) {
    return a.count != b.count ? a.count < b.count : a.pair > b.pair;
  }
};

/// Words of the corpus as token lists, with the count of every neighbouring pair kept up to date.
class MergeCounts {
 public:
  explicit MergeCounts(std::vector<Word> words) : words_(std::move(words)) {
    for (std::size_t index = 0; index < words_.size(); ++index) {
      count_pairs(index, +1);
    }
    requeue();
  }

  /// The pair to merge next; count 0 when none is left.
  QueuedPair pop() {
    while (!queue_.empty()) {
      const QueuedPair top = queue_.top();
      queue_.pop();
      if (counts_[top.pair] == top.count && top.count > 0) {
        return top;
      }
    }
    return {};
  }

  void merge(const Pair& pair, std::int32_t merged) {
    // A copy: words that contain the pair are entered again for their new pairs while the loop runs.
    const std::vector<std::size_t> places = std::exchange(places_[pair], {});
    for (const std::size_t index : places) {
      count_pairs(index, -1);
      replace(words_[index].ids, pair, merged);
      count_pairs(index, +1);
    }
    requeue();
  }

 private:
  static void replace(std::vector<std::int32_t>& ids, const Pair& pair, std::int32_t merged) {
    std::size_t out = 0;
    for (std::size_t in = 0; in < ids.size(); ++in, ++out) {
      const bool is_pair = in + 1 < ids.size() && ids[in] == pair.first && ids[in + 1] == pair.second;
      ids[out] = is_pair ? merged : ids[in];
      in += is_pair ? 1 : 0;
    }
    ids.resize(out);
  }

  void count_pairs(std::size_t index, std::int64_t sign) {
    const Word& word = words_[index];
    for (std::size_t i = 0; i + 1 < word.ids.size(); ++i) {
      const Pair pair{word.ids[i], word.ids[i + 1]};
      counts_[pair] += sign * word.count;
      changed_.push_back(pair);
      if (sign > 0) {
        auto& places = places_[pair];
        if (places.empty() || places.back() != index) {
          places.push_back(index);
        }
      }
    }
  }

  /// Queues the present count of every pair touched since the last call; older entries no longer match and are skipped.
  void requeue() {
    std::sort(changed_.begin(), changed_.end());
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    for (const Pair& pair : changed_) {
      if (const std::int64_t count = counts_[pair]; count > 0) {
        queue_.push({count, pair});
      }
    }
    changed_.clear();
  }

  struct PairHash {
    std::size_t operator()(const Pair& pair) const {
      return std::hash<std::uint64_t>()((static_cast<std::uint64_t>(static_cast<std::uint32_t>(pair.first)) << 32) |
                                        static_cast<std::uint32_t>(pair.second));
    }
  };

  std::vector<Word> words_;
  std::unordered_map<Pair, std::int64_t, PairHash> counts_;
  std::unordered_map<Pair, std::vector<std::size_t>, PairHash> places_;  // words that hold or held the pair
  std::vector<Pair> changed_;
  std::priority_queue<QueuedPair> queue_;
};

Expected<void> check_options(const BpeTrainOptions& options) {
  std::unordered_set<std::string> seen;
  for (const auto* tokens : {&options.added_tokens, &options.special_tokens}) {
    for (const std::string& token : *tokens) {
      if (token.empty() || valid_utf8_prefix(token) != token.size() || !seen.insert(token).second) {
        return unexpected(ErrorCode::invalid_argument,
                          "added token \"" + replace_invalid_utf8(token) + "\": empty, not UTF-8 or repeated");
      }
    }
  }
  const auto smallest = static_cast<std::int64_t>(256 + seen.size());
  if (options.vocab_size < smallest) {
    return unexpected(ErrorCode::invalid_argument, "vocab_size " + std::to_string(options.vocab_size) +
                                                       ": must be at least " + std::to_string(smallest) +
                                                       ", the bytes and the added tokens");
  }
  if (options.min_frequency < 1) {
    return unexpected(ErrorCode::invalid_argument,
                      "min_frequency " + std::to_string(options.min_frequency) + ": must be at least 1");
  }
  const auto& special = options.special_tokens;
  if (!options.eos_token.empty() && std::find(special.begin(), special.end(), options.eos_token) == special.end()) {
    return unexpected(ErrorCode::invalid_argument, "eos_token \"" + options.eos_token + "\": not a special token");
  }
  return {};
}

std::vector<BpeToken> byte_tokens() {
  std::vector<BpeToken> tokens;
  for (const std::uint8_t byte : bytes_in_alphabet_order()) {
    tokens.push_back({std::string(1, static_cast<char>(byte)), false, true});
  }
  return tokens;
}

/// A tokenizer of bytes and added tokens only: it cuts the texts exactly as the finished one will.
std::shared_ptr<detail::TokenizerParts> make_parts(const BpeTrainOptions& options, BpeModel model, Regex pattern) {
  auto parts = std::make_shared<detail::TokenizerParts>(std::move(model));
  parts->normal_form = options.normal_form;
  parts->sections = {detail::normalizer_section(options.normal_form),
                     detail::split_section(pattern.pattern()),
                     detail::post_processor_section(),
                     detail::decoder_section(),
                     "null",
                     /*config=*/"",
                     /*jinja=*/""};
  parts->patterns.push_back(std::move(pattern));
  auto id = static_cast<std::int32_t>(parts->model.tokens().size());
  for (const std::string& content : options.added_tokens) {
    parts->added_tokens.push_back({id++, content, /*is_special=*/false, /*is_normalized=*/false});
  }
  for (const std::string& content : options.special_tokens) {
    if (content == options.eos_token) {
      parts->eos_id = id;
    }
    parts->added_tokens.push_back({id++, content, /*is_special=*/true, /*is_normalized=*/false});
  }
  parts->finish();
  return parts;
}

/// Every piece of the corpus once, with its count, in byte order.
std::vector<Word> count_words(std::span<const std::string> texts, const detail::TokenizerParts& parts) {
  std::map<std::string, std::int64_t> counts;
  for (const std::string& text : texts) {
    detail::for_each_piece(
        parts, text, /*special_tokens=*/true, [&](std::string_view piece) { ++counts[std::string(piece)]; },
        [](std::int32_t) {});
  }
  std::vector<Word> words;
  words.reserve(counts.size());
  for (const auto& [piece, count] : counts) {
    Word word{{}, count};
    parts.model.encode(piece, word.ids);
    words.push_back(std::move(word));
  }
  return words;
}

}  // namespace

Expected<Tokenizer> train_bpe(std::span<const std::string> texts, const BpeTrainOptions& options) {
  MEMOPD_RETURN_IF_ERROR(check_options(options));
  const auto pattern = Regex::compile(options.pattern.empty() ? kQwen2Pattern : std::string_view(options.pattern));
  if (!pattern) {
    return unexpected(pattern.error());
  }
  auto byte_model = BpeModel::create(byte_tokens(), {}, /*ignore_merges=*/false);
  if (!byte_model) {
    return unexpected(byte_model.error());
  }
  MergeCounts counts(count_words(texts, *make_parts(options, std::move(*byte_model), *pattern)));

  const auto num_added = static_cast<std::int32_t>(options.added_tokens.size() + options.special_tokens.size());
  std::vector<BpeToken> tokens = byte_tokens();
  std::vector<BpeMerge> merges;
  // No two merges lead to the same bytes: all their places in the corpus were cut alike until then.
  for (auto id = static_cast<std::int32_t>(tokens.size()); id < options.vocab_size - num_added; ++id) {
    const QueuedPair best = counts.pop();
    if (best.count < options.min_frequency) {
      break;
    }
    const auto& [left, right] = best.pair;
    tokens.push_back(
        {tokens[static_cast<std::size_t>(left)].bytes + tokens[static_cast<std::size_t>(right)].bytes, false, true});
    merges.push_back({left, right, id});
    counts.merge(best.pair, id);
  }
  auto model = BpeModel::create(std::move(tokens), std::move(merges), /*ignore_merges=*/false);
  if (!model) {
    return unexpected(model.error());
  }
  return Tokenizer(make_parts(options, std::move(*model), *pattern));
}

}  // namespace memopd

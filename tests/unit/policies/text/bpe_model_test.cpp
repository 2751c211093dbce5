#include "policies/text/bpe_model.hpp"

#include <catch2/catch.hpp>

#include "runtime/base/random.hpp"

namespace memopd {
namespace {

using Ids = std::vector<std::int32_t>;

/// Ids 0..255 are the bytes themselves; `merges` add one token each.
BpeModel model(const std::vector<std::pair<std::int32_t, std::int32_t>>& merges, bool ignore_merges = false) {
  std::vector<BpeToken> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back({std::string(1, static_cast<char>(byte)), false, true});
  }
  std::vector<BpeMerge> rules;
  for (const auto& [left, right] : merges) {
    rules.push_back({left, right, static_cast<std::int32_t>(tokens.size())});
    tokens.push_back(
        {tokens[static_cast<std::size_t>(left)].bytes + tokens[static_cast<std::size_t>(right)].bytes, false, true});
  }
  auto created = BpeModel::create(std::move(tokens), std::move(rules), ignore_merges);
  REQUIRE(created);
  return std::move(*created);
}

Ids encode(const BpeModel& bpe, std::string_view piece) {
  Ids ids;
  bpe.encode(piece, ids);
  return ids;
}

TEST_CASE("the pair of lowest rank merges first, the leftmost of equals", "[tokenizer][BPE-1]") {
  CHECK(encode(model({{'b', 'c'}, {'a', 'b'}}), "abc") == Ids{'a', 256});
  CHECK(encode(model({{'a', 'a'}}), "aaaaa") == Ids{256, 256, 'a'});
  CHECK(encode(model({{'a', 'b'}}), "").empty());
}

TEST_CASE("merging, of short and of long pieces, equals merging rule after rule", "[tokenizer][BPE-1]") {
  // Rules over a and b that overlap and build on one another.
  const BpeModel bpe =
      model({{'a', 'b'}, {'b', 'a'}, {256, 'a'}, {'a', 'a'}, {257, 257}, {256, 256}, {'b', 'b'}, {258, 261}});
  SplitMix random(7);
  for (int round = 0; round < 300; ++round) {
    std::string piece;
    for (std::uint64_t left = random.below(120) + 1; left > 0; --left) {
      piece.push_back(random.below(2) == 0 ? 'a' : 'b');
    }
    Ids slow(piece.begin(), piece.end());
    for (bool is_merged = true; is_merged;) {
      is_merged = false;
      for (const BpeMerge& rule : bpe.merges()) {
        for (std::size_t i = 0; i + 1 < slow.size() && !is_merged; ++i) {
          if (slow[i] == rule.left && slow[i + 1] == rule.right) {
            slow[i] = rule.merged;
            slow.erase(slow.begin() + static_cast<std::ptrdiff_t>(i) + 1);
            is_merged = true;
          }
        }
        if (is_merged) {
          break;
        }
      }
    }
    CHECK(encode(bpe, piece) == slow);
  }
}

TEST_CASE("a token that its merges do not reach is used only when merges are ignored", "[tokenizer]") {
  // "abc" = "ab" + "c" exists, but "bc" has the lower rank.
  const std::vector<std::pair<std::int32_t, std::int32_t>> merges = {{'b', 'c'}, {'a', 'b'}, {257, 'c'}};
  CHECK(encode(model(merges), "abc") == Ids{'a', 256});
  CHECK(encode(model(merges, /*ignore_merges=*/true), "abc") == Ids{258});
}

TEST_CASE("a vocabulary without one of the bytes is refused by its name", "[tokenizer][BPE-2][error]") {
  std::vector<BpeToken> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back({std::string(1, static_cast<char>(byte)), false, byte != 0x20});
  }
  const auto created = BpeModel::create(std::move(tokens), {}, false);
  REQUIRE_FALSE(created);
  CHECK(created.error().code == ErrorCode::unsupported);
  CHECK(created.error().message.find("byte 32") != std::string::npos);
}

TEST_CASE("a byte that text does without may lack a token, and then gives no id", "[tokenizer][BPE-2]") {
  std::vector<BpeToken> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back({std::string(1, static_cast<char>(byte)), false, byte != 0x04 && byte != 0xFF});
  }
  tokens.push_back({"ab", false, true});
  const auto bpe = BpeModel::create(std::move(tokens), {{'a', 'b', 256}}, false);

  REQUIRE(bpe);
  CHECK(bpe->missing_bytes() == std::vector<std::uint8_t>{0x04, 0xFF});
  CHECK(encode(*bpe,
               "a\x04"
               "b\xFF") == Ids{256});  // as if it were not there
  CHECK(encode(*bpe, "\x04").empty());
  CHECK(encode(*bpe, std::string(100, '\x04')).empty());
  CHECK(encode(*bpe, std::string(100, '\x04') + "ab") == Ids{256});
}

}  // namespace
}  // namespace memopd

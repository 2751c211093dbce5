#include "policies/text/tokenizer_comparison.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/policies/text/toy_tokenizers.hpp"

namespace memopd {
namespace {

using Strings = std::vector<std::string>;

Tokenizer with_tokens(const Strings& added, const Strings& special) {
  auto tokenizer =
      train_bpe(std::vector<std::string>{}, {.vocab_size = 300, .added_tokens = added, .special_tokens = special});
  REQUIRE(tokenizer);
  return *tokenizer;
}

TEST_CASE("the shared prefix is the largest scored vocabulary that both accept", "[tokenizer][pain:T14]") {
  const Tokenizer small = with_tokens({"<a>", "<b>"}, {});
  const Tokenizer large = with_tokens({"<a>", "<x>", "<y>"}, {});

  const TokenizerComparison comparison = compare_tokenizers(small, large);

  CHECK(comparison.vocab_size_a == 258);
  CHECK(comparison.vocab_size_b == 259);
  CHECK(comparison.shared_prefix == 257);
  CHECK(comparison.differing_ids == std::vector<std::int32_t>{257});
  CHECK(check_compatible(small, large, comparison.shared_prefix));
  CHECK_FALSE(check_compatible(small, large, comparison.shared_prefix + 1));
}

TEST_CASE("special tokens that only one has, or that moved, are listed", "[tokenizer]") {
  const TokenizerComparison comparison =
      compare_tokenizers(with_tokens({"<z>"}, {"<s>", "<end>"}), with_tokens({"<s>"}, {"<new>", "<z2>", "<end>"}));

  CHECK(comparison.special_only_a == Strings{"<s>"});  // there, it is not special
  CHECK(comparison.special_only_b == Strings{"<new>", "<z2>"});
  CHECK(comparison.special_moved == Strings{"<end>"});
  CHECK(comparison.num_differing_ids == 3);
}

TEST_CASE("two tokenizers part on a text where the first id differs", "[tokenizer]") {
  const Tokenizer a = with_tokens({"<a>", "<b>"}, {});
  const Tokenizer b = with_tokens({"<a>"}, {});

  const auto difference = compare_on_text(a, b, "é<a>x<b>");

  REQUIRE(difference);
  CHECK(difference->index == 4);
  CHECK(difference->byte_offset == 6);
  CHECK(difference->ids_a.at(4) == 257);
  CHECK_FALSE(compare_on_text(a, b, "é<a>x"));
}

TEST_CASE("a tokenizer differs from itself in nothing", "[tokenizer]") {
  const auto tokenizer = testing::toy_tokenizer(testing::kTags);
  const TokenizerComparison comparison = compare_tokenizers(*tokenizer, *tokenizer);

  CHECK(comparison.shared_prefix == tokenizer->vocab_size());
  CHECK(comparison.num_differing_ids == 0);
  CHECK(comparison.special_only_a.empty());
  CHECK(comparison.special_moved.empty());
}

}  // namespace
}  // namespace memopd

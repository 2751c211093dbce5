#include "policies/text/bpe_trainer.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/policies/text/toy_tokenizers.hpp"

namespace memopd {
namespace {

using testing::Ids;

Tokenizer train(const std::vector<std::string>& corpus, const BpeTrainOptions& options) {
  auto tokenizer = train_bpe(corpus, options);
  REQUIRE(tokenizer);
  return *tokenizer;
}

TEST_CASE("ids are bytes, then merges by frequency, then added, then special tokens", "[tokenizer]") {
  const Tokenizer tokenizer =
      train({"xyz xyz", "xy"},
            {.vocab_size = 260, .added_tokens = {"<a>"}, .special_tokens = {"<|e|>"}, .eos_token = "<|e|>"});

  CHECK(tokenizer.token_bytes(0) == "!");
  CHECK(tokenizer.token_bytes(256) == "xy");   // 3 times
  CHECK(tokenizer.token_bytes(257) == "xyz");  // twice
  CHECK(tokenizer.token_bytes(258) == "<a>");
  CHECK(tokenizer.token_bytes(259) == "<|e|>");
  CHECK(tokenizer.vocab_size() == 260);
  CHECK(tokenizer.eos_id() == 259);
  CHECK(tokenizer.is_special(259));
  CHECK_FALSE(tokenizer.is_special(258));
}

TEST_CASE("ties go to the smallest pair of ids", "[tokenizer]") {
  // "cd" and "ab" stand twice each; the id of a is smaller than that of c.
  const Tokenizer tokenizer = train({"cd", "ab", "cd", "ab"}, {.vocab_size = 257});

  CHECK(tokenizer.token_bytes(256) == "ab");
}

TEST_CASE("the order of the texts does not matter", "[tokenizer][RL-6]") {
  const std::vector<std::string> corpus = {"the cat sat", "on the mat", "that the cat had", "the the at"};
  const std::vector<std::string> reversed(corpus.rbegin(), corpus.rend());
  const BpeTrainOptions options{.vocab_size = 280};

  CHECK(train(corpus, options).to_json() == train(reversed, options).to_json());
}

TEST_CASE("a pair rarer than min_frequency is not merged", "[tokenizer]") {
  CHECK(train({"ab ab ab"}, {.vocab_size = 300, .min_frequency = 3}).vocab_size() == 257);
  CHECK(train({"ab ab ab"}, {.vocab_size = 300, .min_frequency = 4}).vocab_size() == 256);
}

TEST_CASE("added tokens in the corpus are not learnt from", "[tokenizer]") {
  const Tokenizer tokenizer = train({"<tag>x<tag>y<tag>"}, {.vocab_size = 300, .added_tokens = {"<tag>"}});

  CHECK(tokenizer.vocab_size() == 257);
}

TEST_CASE("options out of range are errors that name the value", "[tokenizer][error]") {
  const std::vector<std::string> corpus = {"a"};
  for (const auto& [options, named] : std::vector<std::pair<BpeTrainOptions, std::string>>{
           {{.vocab_size = 255}, "vocab_size 255"},
           {{.vocab_size = 256, .added_tokens = {"<a>"}}, "at least 257"},
           {{.vocab_size = 300, .min_frequency = 0}, "min_frequency 0"},
           {{.vocab_size = 300, .added_tokens = {""}}, "added token \"\""},
           {{.vocab_size = 300, .added_tokens = {"<a>"}, .special_tokens = {"<a>"}}, "<a>"},
           {{.vocab_size = 300, .added_tokens = {"\xFF"}}, "not UTF-8"},
           {{.vocab_size = 300, .eos_token = "<e>"}, "eos_token \"<e>\""}}) {
    const auto tokenizer = train_bpe(corpus, options);
    INFO(named);
    REQUIRE_FALSE(tokenizer);
    CHECK(tokenizer.error().code == ErrorCode::invalid_argument);
    CHECK(tokenizer.error().message.find(named) != std::string::npos);
  }
  CHECK(train_bpe(corpus, {.vocab_size = 300, .pattern = "("}).error().code == ErrorCode::parse_error);
}

}  // namespace
}  // namespace memopd

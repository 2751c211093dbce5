// Small vocabularies that the tests of this folder share.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "policies/text/bpe_trainer.hpp"

namespace memopd::testing {

using Ids = std::vector<std::int32_t>;

inline const std::vector<std::string> kTags = {"<think>",  "</think>",  "<search>",      "</search>",
                                               "<answer>", "</answer>", "<information>", "</information>"};
inline const std::vector<std::string> kSpecials = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

/// Trained on "hello": "he" + "llo" is one token, and so is each half.
inline std::shared_ptr<const Tokenizer> toy_tokenizer(const std::vector<std::string>& added_tokens = {}) {
  const std::vector<std::string> corpus = {"he\nhe\nhe\nhe", "llo\nllo\nllo", "hello\nhello"};
  BpeTrainOptions options;
  options.vocab_size = 280;
  options.added_tokens = added_tokens;
  options.special_tokens = kSpecials;
  options.eos_token = "<|im_end|>";
  auto tokenizer = train_bpe(corpus, options);
  REQUIRE(tokenizer);
  return std::make_shared<const Tokenizer>(std::move(*tokenizer));
}

/// Ids of `tokens`, each of which must be one token.
inline Ids ids_of(const Tokenizer& tokenizer, const std::vector<std::string>& tokens) {
  Ids ids;
  for (const std::string& token : tokens) {
    const auto id = tokenizer.token_id(token);
    INFO(token);
    REQUIRE(id);
    ids.push_back(*id);
  }
  return ids;
}

}  // namespace memopd::testing

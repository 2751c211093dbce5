#include "policies/text/chat_template.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/policies/text/toy_tokenizers.hpp"

namespace memopd {
namespace {

std::string joined(const std::vector<ChatPiece>& pieces) {
  std::string text;
  for (const ChatPiece& piece : pieces) {
    text += piece.text;
  }
  return text;
}

TEST_CASE("chatml wraps instructions and question and opens the assistant's turn", "[protocol]") {
  const auto chatml = make_chat_template("chatml", *testing::toy_tokenizer());
  REQUIRE(chatml);

  CHECK(joined((*chatml)->wrap("Be brief.", "Why?")) ==
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n");
  CHECK(joined((*chatml)->wrap("", "Why?")) == "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n");
}

TEST_CASE("only the template's own markup is encoded with special tokens", "[protocol][PT-1]") {
  const auto chatml = make_chat_template("chatml", *testing::toy_tokenizer());
  REQUIRE(chatml);

  for (const ChatPiece& piece : (*chatml)->wrap("I", "Q")) {
    CHECK(piece.is_markup == (piece.text != "I" && piece.text != "Q"));
    CHECK((piece.kind == SpanKind::question) == (piece.text == "Q"));
  }
}

TEST_CASE("none puts nothing around instructions and question", "[protocol]") {
  const auto plain = make_chat_template("none", *testing::toy_tokenizer());
  REQUIRE(plain);

  CHECK(joined((*plain)->wrap("I ", "Q")) == "I Q");
  CHECK((*plain)->wrap("", "Q").size() == 1);
}

TEST_CASE("an unknown template, or one whose tokens are missing, is a config error", "[protocol][error]") {
  const auto unknown = make_chat_template("llama9", *testing::toy_tokenizer());
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().code == ErrorCode::config_error);
  CHECK(unknown.error().message.find("\"chatml\", \"none\"") != std::string::npos);

  const auto bare = train_bpe(std::vector<std::string>{"a"}, {.vocab_size = 256});
  REQUIRE(bare);
  const auto lacking = make_chat_template("chatml", *bare);
  REQUIRE_FALSE(lacking);
  CHECK(lacking.error().message.find("<|im_start|>") != std::string::npos);
}

}  // namespace
}  // namespace memopd

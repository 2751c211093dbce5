#include "policies/text/chat_template.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/policies/text/toy_tokenizers.hpp"

namespace memopd {
namespace {

const std::string kChatMlTurns =
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

std::string joined(const std::vector<ChatPiece>& pieces) {
  std::string text;
  for (const ChatPiece& piece : pieces) {
    text += piece.text;
  }
  return text;
}

/// A tokenizer that has `tokens` as special ones, with this tokenizer_config.json and chat_template.jinja.
Tokenizer with_files(const std::vector<std::string>& tokens, const std::string& config, const std::string& jinja = "") {
  const auto bare = train_bpe(std::vector<std::string>{"a"}, {.vocab_size = 300, .special_tokens = tokens});
  REQUIRE(bare);
  auto tokenizer = Tokenizer::from_json(bare->to_json(), config, jinja);
  REQUIRE(tokenizer);
  return *tokenizer;
}

std::string problem(const std::string& name, const Tokenizer& tokenizer) {
  const auto made = make_chat_template(name, tokenizer);
  REQUIRE_FALSE(made);
  CHECK(made.error().code == ErrorCode::config_error);
  return made.error().message;
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

TEST_CASE("llama3 begins with the tokenizer's begin-of-sequence token and trims what people wrote", "[protocol]") {
  const std::vector<std::string> tokens = {"<s>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
  const auto llama3 = make_chat_template("llama3", with_files(tokens, R"({"bos_token": {"content": "<s>"}})"));
  REQUIRE(llama3);

  CHECK(joined((*llama3)->wrap("", " \u3000Why?\n")) ==
        "<s><|start_header_id|>user<|end_header_id|>\n\nWhy?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

TEST_CASE("auto takes the template of the tokenizer's files, the one in a file of its own first", "[protocol]") {
  const std::string with_default =
      "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
      "Be kind.<|im_end|>\n' }}{% endif %}" +
      kChatMlTurns;
  const std::string config =
      R"({"chat_template": [{"name": "tool_use", "template": "?"}, {"name": "default",
      "template": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] +)"
      R"( '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"}]})";

  const auto of_config = make_chat_template("auto", with_files(testing::kSpecials, config));
  const auto of_file = make_chat_template("auto", with_files(testing::kSpecials, config, with_default));

  REQUIRE(of_config);
  CHECK_FALSE((*of_config)->format().default_system);
  REQUIRE(of_file);
  CHECK((*of_file)->format().default_system == "Be kind.");
  CHECK(joined((*of_file)->wrap("", "Q")).starts_with("<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nQ"));
  CHECK(joined((*of_file)->wrap("I", "Q")).starts_with("<|im_start|>system\nI<|im_end|>\n"));
}

TEST_CASE("a template that is nearly known is not known, and the error shows the way out", "[protocol][error]") {
  const std::string odd = "{% for message in messages %}{{ bos }}" + kChatMlTurns;
  const std::string with_code =
      "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
      "' + now() + '<|im_end|>\n' }}{% endif %}" +
      kChatMlTurns;
  for (const std::string& jinja : {odd, with_code, std::string("{{ x }}")}) {
    const std::string message = problem("auto", with_files(testing::kSpecials, "", jinja));
    INFO(message);
    CHECK(message.find("protocol.chat_template \"auto\"") != std::string::npos);
    CHECK(message.find("\"" + jinja.substr(0, 60) + "..\"") != std::string::npos);
    CHECK(message.find("set \"chatml\", \"llama3\" or \"none\"") != std::string::npos);
  }
  CHECK(problem("auto", with_files(testing::kSpecials, "")).find("have no chat_template") != std::string::npos);
}

TEST_CASE("an unknown template, or one whose tokens are missing, is a config error", "[protocol][error]") {
  CHECK(problem("llama9", *testing::toy_tokenizer()).find("\"auto\", \"chatml\", \"llama3\", \"none\"") !=
        std::string::npos);
  CHECK(problem("chatml", with_files({"<|im_end|>"}, "")).find("\"<|im_start|>\"") != std::string::npos);
  CHECK(problem("llama3", *testing::toy_tokenizer()).find("\"<|start_header_id|>\"") != std::string::npos);
}

}  // namespace
}  // namespace memopd

#include "policies/text/tokenizer_json.hpp"

#include <catch2/catch.hpp>
#include <functional>

#include "policies/text/byte_alphabet.hpp"
#include "policies/text/tokenizer.hpp"
#include "tests/unit/policies/text/toy_tokenizers.hpp"

namespace memopd {
namespace {

using nlohmann::json;

json toy_file() { return json::parse(testing::toy_tokenizer({"<think>"})->to_json()); }

/// The error that the toy file gives after `change`.
Error error_after(const std::function<void(json&)>& change) {
  json file = toy_file();
  change(file);
  const auto tokenizer = Tokenizer::from_json(file.dump());
  REQUIRE_FALSE(tokenizer);
  return tokenizer.error();
}

TEST_CASE("everything that would be ignored is refused by its path", "[tokenizer][error]") {
  const std::vector<std::pair<std::string, std::function<void(json&)>>> changes = {
      {"top level.extra", [](json& f) { f["extra"] = 1; }},
      {"version", [](json& f) { f["version"] = "2.0"; }},
      {"truncation",
       [](json& f) {
         f["truncation"] = {{"max_length", 8}};
       }},
      {"padding",
       [](json& f) {
         f["padding"] = {{"pad_id", 0}};
       }},
      {"normalizer",
       [](json& f) {
         f["normalizer"] = {{"type", "Lowercase"}};
       }},
      {"pre_tokenizer", [](json& f) { f["pre_tokenizer"] = nullptr; }},
      {"pre_tokenizer",
       [](json& f) {
         f["pre_tokenizer"] = {{"type", "Metaspace"}};
       }},
      {"pretokenizers[0]",
       [](json& f) {
         f["pre_tokenizer"]["pretokenizers"][0] = {{"type", "Whitespace"}};
       }},
      {"behavior", [](json& f) { f["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed"; }},
      {"invert", [](json& f) { f["pre_tokenizer"]["pretokenizers"][0]["invert"] = true; }},
      {"pattern",
       [](json& f) {
         f["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"String", " "}};
       }},
      {"add_prefix_space", [](json& f) { f["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true; }},
      {"post_processor",
       [](json& f) {
         f["post_processor"] = {{"type", "BertProcessing"}};
       }},
      {"decoder",
       [](json& f) {
         f["decoder"] = {{"type", "WordPiece"}};
       }},
      {"model.type", [](json& f) { f["model"]["type"] = "Unigram"; }},
      {"model.dropout", [](json& f) { f["model"]["dropout"] = 0.1; }},
      {"model.byte_fallback", [](json& f) { f["model"]["byte_fallback"] = true; }},
      {"model.end_of_word_suffix", [](json& f) { f["model"]["end_of_word_suffix"] = "</w>"; }},
      {"model.novel", [](json& f) { f["model"]["novel"] = true; }},
      {"model.vocab: no token for byte 33",
       [](json& f) {
         f["model"]["vocab"]["é!"] = f["model"]["vocab"]["!"];
         f["model"]["vocab"].erase("!");
       }},
      {"added_tokens[0].novel", [](json& f) { f["added_tokens"][0]["novel"] = true; }}};
  for (const auto& [path, change] : changes) {
    const Error error = error_after(change);
    INFO(path << " in " << error.message);
    CHECK(error.code == ErrorCode::unsupported);
    CHECK(error.message.find(path) != std::string::npos);
  }
}

TEST_CASE("a file that contradicts itself is refused with the place", "[tokenizer][error]") {
  const std::vector<std::pair<std::string, std::function<void(json&)>>> changes = {
      {"model: expected an object", [](json& f) { f["model"] = 7; }},
      {"model.vocab", [](json& f) { f["model"]["vocab"] = json::array(); }},
      {"\"!\": not an id", [](json& f) { f["model"]["vocab"]["!"] = -1; }},
      {"\"!\": not an id", [](json& f) { f["model"]["vocab"]["!"] = 1LL << 40; }},
      {"id 1 appears twice", [](json& f) { f["model"]["vocab"]["!"] = 1; }},
      {"model.merges[0]: \"hé\"", [](json& f) { f["model"]["merges"][0] = "hé e"; }},
      {"model.merges[0]: \"qq\", its result",
       [](json& f) {
         f["model"]["merges"][0] = {"q", "q"};
       }},
      {"model.merges[0]: expected", [](json& f) { f["model"]["merges"][0] = 7; }},
      {"model.merges: expected", [](json& f) { f["model"].erase("merges"); }},
      {"added_tokens: expected", [](json& f) { f["added_tokens"] = "x"; }},
      {"added_tokens[1]: \"<think>\"", [](json& f) { f["added_tokens"][1]["content"] = "<think>"; }},
      {"added_tokens[0]: \"<think>\" or its id 5", [](json& f) { f["added_tokens"][0]["id"] = 5; }},
      {"added_tokens[0]: \"he\" has id", [](json& f) { f["added_tokens"][0]["content"] = "he"; }},
      {"added_tokens[0]: expected", [](json& f) { f["added_tokens"][0]["content"] = ""; }},
      {"added_tokens[0].lstrip: expected true or false", [](json& f) { f["added_tokens"][0]["lstrip"] = 1; }},
      {"model.ignore_merges: expected", [](json& f) { f["model"]["ignore_merges"] = "no"; }},
      {"pretokenizers[0].pattern.Regex: regular expression",
       [](json& f) { f["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "("; }}};
  for (const auto& [part, change] : changes) {
    const Error error = error_after(change);
    INFO(part << " in " << error.message);
    CHECK(error.code == ErrorCode::parse_error);
    CHECK(error.message.find(part) != std::string::npos);
  }
  CHECK(Tokenizer::from_json("[]").error().code == ErrorCode::parse_error);
  CHECK(Tokenizer::from_json("").error().code == ErrorCode::parse_error);
  CHECK(Tokenizer::from_json("{}", "").error().code == ErrorCode::unsupported);
}

TEST_CASE("an unknown token is refused where bytes have none, since it would stand for them", "[tokenizer][error]") {
  json file = toy_file();
  const std::string control = to_byte_alphabet("\x04");
  file["model"]["vocab"]["<gap>"] = file["model"]["vocab"][control];
  file["model"]["vocab"].erase(control);
  CHECK(Tokenizer::from_json(file.dump())->missing_bytes() == std::vector<std::uint8_t>{0x04});

  file["model"]["unk_token"] = "he";

  const auto tokenizer = Tokenizer::from_json(file.dump());
  REQUIRE_FALSE(tokenizer);
  CHECK(tokenizer.error().message.find("model.unk_token") != std::string::npos);
}

TEST_CASE("a file nested a million levels deep is refused, not followed", "[tokenizer][error]") {
  const std::string deep(1000000, '[');

  const auto tokenizer = Tokenizer::from_json("{\"post_processor\": " + deep);

  REQUIRE_FALSE(tokenizer);
  CHECK(tokenizer.error().message.find("tokenizer.json: nested deeper than the 64 levels allowed") !=
        std::string::npos);
  CHECK(Tokenizer::from_json(testing::toy_tokenizer({deep})->to_json()));  // brackets in strings are text
}

TEST_CASE("merges may be written as one string with a space", "[tokenizer]") {
  json file = toy_file();
  for (json& merge : file["model"]["merges"]) {
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }

  const auto tokenizer = Tokenizer::from_json(file.dump());

  REQUIRE(tokenizer);
  CHECK(json::parse(tokenizer->to_json()) == toy_file());
}

TEST_CASE("an added token of the vocabulary and one with gaps before it keep their ids", "[tokenizer]") {
  json file = toy_file();
  file["model"]["vocab"]["<|odd one|>"] = 400;
  file["added_tokens"][0] = {{"id", 400}, {"content", "<|odd one|>"}, {"special", true}, {"normalized", false}};

  const auto tokenizer = Tokenizer::from_json(file.dump());

  REQUIRE(tokenizer);
  CHECK(tokenizer->vocab_size() == 401);
  CHECK(tokenizer->token_bytes(399).empty());
  CHECK(tokenizer->encode("he<|odd one|>", {.special_tokens = true}).back() == 400);
  CHECK(json::parse(tokenizer->to_json())["model"]["vocab"]["<|odd one|>"] == 400);
}

TEST_CASE("a post-processor for beginning-of-sequence tokens is kept and not applied", "[tokenizer]") {
  json file = toy_file();
  file["post_processor"] = {{"type", "TemplateProcessing"}, {"single", json::array()}};

  const auto tokenizer = Tokenizer::from_json(file.dump());

  REQUIRE(tokenizer);
  CHECK(tokenizer->encode("he", {.special_tokens = true}).size() == 1);
  CHECK(json::parse(tokenizer->to_json())["post_processor"] == file["post_processor"]);
}

}  // namespace
}  // namespace memopd

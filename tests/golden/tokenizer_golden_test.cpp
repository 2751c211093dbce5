// Ids, vocabularies and files against the `tokenizers` package; make_tokenizer_golden.py made what is read here.
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "policies/text/bpe_trainer.hpp"
#include "policies/text/tokenizer.hpp"

namespace memopd {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

const std::filesystem::path kFolder = std::filesystem::path(MEMOPD_SOURCE_DIR) / "tests" / "golden";

json read_json(const std::string& name) {
  std::ifstream file(kFolder / name);
  REQUIRE(file);
  return json::parse(file);
}

Tokenizer load(const std::string& variant) {
  auto tokenizer = Tokenizer::load(kFolder / ("tokenizer_" + variant + ".json"));
  if (!tokenizer) {
    FAIL(tokenizer.error().message);
  }
  return *tokenizer;
}

TEST_CASE("ids of every text equal those of the tokenizers package", "[tokenizer][golden]") {
  const json golden = read_json("tokenizer_golden.json");
  for (const char* variant : {"qwen2", "gpt2", "llama3", "smollm", "strip"}) {
    const Tokenizer tokenizer = load(variant);
    const json& cases = golden["cases"][variant];
    REQUIRE(cases.size() > 80);
    for (const json& c : cases) {
      const auto text = c["text"].get<std::string>();
      INFO(variant << ": " << c["text"].dump());
      CHECK(tokenizer.encode(text, {.special_tokens = true}) == c["ids"].get<Ids>());
      CHECK(tokenizer.encode(text) == c["plain_ids"].get<Ids>());
    }
  }
}

TEST_CASE("a file of the tokenizers package is written back with the same content", "[tokenizer][golden]") {
  for (const char* variant : {"qwen2", "gpt2", "llama3", "smollm", "strip"}) {
    INFO(variant);
    CHECK(json::parse(load(variant).to_json()) == read_json("tokenizer_" + std::string(variant) + ".json"));
  }
}

TEST_CASE("training gives the file that the tokenizers package trains from the same corpus", "[tokenizer][golden]") {
  const auto corpus = read_json("tokenizer_golden.json")["corpus"].get<std::vector<std::string>>();
  BpeTrainOptions options;
  options.added_tokens = {"<think>",  "</think>",  "<search>",      "</search>",
                          "<answer>", "</answer>", "<information>", "</information>"};
  options.special_tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  options.vocab_size = 700 + 8 + 3;

  const auto tokenizer = train_bpe(corpus, options);

  REQUIRE(tokenizer);
  const json trained = json::parse(tokenizer->to_json());
  const json golden = read_json("tokenizer_qwen2.json");
  CHECK(trained["model"]["merges"] == golden["model"]["merges"]);
  CHECK(trained == golden);
}

}  // namespace
}  // namespace memopd

#include "policies/text/tokenizer.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "runtime/base/random.hpp"
#include "tests/unit/policies/text/toy_tokenizers.hpp"

namespace memopd {
namespace {

using testing::Ids;
using testing::ids_of;
using testing::toy_tokenizer;

std::filesystem::path fresh_folder(const std::string& name) {
  const auto folder = std::filesystem::path(MEMOPD_BINARY_DIR) / "tests" / ("tokenizer_" + name);
  std::filesystem::remove_all(folder);
  return folder;
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

Tokenizer bytes_only(NormalForm form) {
  auto tokenizer = train_bpe(std::vector<std::string>{}, {.vocab_size = 300, .normal_form = form});
  REQUIRE(tokenizer);
  return *tokenizer;
}

TEST_CASE("two tokens that spell one are encoded as that one, so ids must never be decoded and encoded again",
          "[tokenizer][AP-1][pain:T07]") {
  const auto tokenizer = toy_tokenizer();
  const Ids sampled = ids_of(*tokenizer, {"he", "llo"});

  CHECK(tokenizer->encode(tokenizer->decode(sampled)) == ids_of(*tokenizer, {"hello"}));
}

TEST_CASE("special tokens are found only when asked for, other added tokens always", "[tokenizer][PT-1]") {
  const auto tokenizer = toy_tokenizer({"<think>"});
  const std::string text = "<think>he<|im_end|>";

  const Ids with_special = tokenizer->encode(text, {.special_tokens = true});
  const Ids without = tokenizer->encode(text);

  CHECK(with_special == ids_of(*tokenizer, {"<think>", "he", "<|im_end|>"}));
  CHECK(without.size() > 4);
  CHECK(without[0] == tokenizer->token_id("<think>"));
  CHECK(std::none_of(without.begin(), without.end(), [&](std::int32_t id) { return tokenizer->is_special(id); }));
  CHECK(tokenizer->decode(without) == text);
}

TEST_CASE("any bytes come back from their ids", "[tokenizer][error]") {
  const Tokenizer tokenizer = bytes_only(NormalForm::none);
  SplitMix random(3);
  for (int round = 0; round < 100; ++round) {
    std::string bytes;
    for (std::uint64_t left = random.below(60); left > 0; --left) {
      bytes.push_back(static_cast<char>(random.below(256)));
    }
    CHECK(tokenizer.decode(tokenizer.encode(bytes)) == bytes);
  }
}

TEST_CASE("NFC composes before merging and keeps bytes that are not UTF-8", "[tokenizer]") {
  const Tokenizer tokenizer = bytes_only(NormalForm::nfc);

  CHECK(tokenizer.decode(tokenizer.encode("e\u0301\xFF")) == "\u00e9\xFF");
}

TEST_CASE("ids outside the vocabulary decode to nothing", "[tokenizer][error]") {
  const auto tokenizer = toy_tokenizer();
  const std::int32_t size = tokenizer->vocab_size();

  CHECK(tokenizer->token_bytes(-1).empty());
  CHECK(tokenizer->token_bytes(size).empty());
  CHECK_FALSE(tokenizer->is_special(size));
  CHECK(tokenizer->decode(Ids{-5, *tokenizer->token_id("he"), size}) == "he");
}

TEST_CASE("decode leaves special tokens out when told to", "[tokenizer]") {
  const auto tokenizer = toy_tokenizer({"<think>"});
  const Ids ids = ids_of(*tokenizer, {"<think>", "he", "<|im_end|>"});

  CHECK(tokenizer->decode(ids) == "<think>he<|im_end|>");
  CHECK(tokenizer->decode(ids, /*skip_special=*/true) == "<think>he");
}

TEST_CASE("what was saved loads as the same tokenizer", "[tokenizer]") {
  const auto folder = fresh_folder("round_trip");
  const auto tokenizer = toy_tokenizer(testing::kTags);

  REQUIRE(tokenizer->save(folder));
  const auto loaded = Tokenizer::load(folder);

  REQUIRE(loaded);
  CHECK(loaded->to_json() == tokenizer->to_json());
  CHECK(loaded->eos_id() == tokenizer->token_id("<|im_end|>"));
  CHECK(Tokenizer::load(folder / "tokenizer.json")->eos_id() == loaded->eos_id());
  CHECK_FALSE(std::filesystem::exists(folder / "tokenizer.json.partial"));
}

TEST_CASE("a tokenizer_config.json that came with the vocabulary is written back as it was", "[tokenizer]") {
  const std::string config = R"({"eos_token": {"content": "<|im_end|>"}, "chat_template": "kept"})";

  const auto loaded = Tokenizer::from_json(toy_tokenizer()->to_json(), config);

  REQUIRE(loaded);
  CHECK(loaded->config_json() == config);
  CHECK(loaded->eos_id() == loaded->token_id("<|im_end|>"));
}

TEST_CASE("a chat template of its own file is read and written back", "[tokenizer]") {
  const auto folder = fresh_folder("jinja");
  REQUIRE(toy_tokenizer()->save(folder));
  write(folder / "chat_template.jinja", "{{ x }}");

  const auto loaded = Tokenizer::load(folder);
  REQUIRE(loaded);
  REQUIRE(loaded->save(fresh_folder("jinja_copy")));
  const auto copy = Tokenizer::load(folder.parent_path() / "tokenizer_jinja_copy");

  CHECK(loaded->chat_template() == "{{ x }}");
  REQUIRE(copy);
  CHECK(copy->chat_template() == "{{ x }}");
}

TEST_CASE("a missing file, a file that is no JSON and an unknown eos token are errors with the file's name",
          "[tokenizer][error]") {
  const auto folder = fresh_folder("broken");
  std::filesystem::create_directories(folder);
  const auto missing = Tokenizer::load(folder);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::not_found);
  CHECK(missing.error().message.find("tokenizer.json") != std::string::npos);

  write(folder / "tokenizer.json", "{\"version\": ");
  const auto truncated = Tokenizer::load(folder);
  REQUIRE_FALSE(truncated);
  CHECK(truncated.error().code == ErrorCode::parse_error);
  CHECK(truncated.error().message.find("tokenizer_broken") != std::string::npos);

  const auto no_eos = Tokenizer::from_json(toy_tokenizer()->to_json(), R"({"eos_token": "<eos>"})");
  REQUIRE_FALSE(no_eos);
  CHECK(no_eos.error().message.find("eos_token \"<eos>\"") != std::string::npos);
}

TEST_CASE("a folder that cannot be written is an error", "[tokenizer][error]") {
  const auto folder = fresh_folder("blocked");
  write(folder, "a file where the folder should be");

  const auto saved = toy_tokenizer()->save(folder);

  REQUIRE_FALSE(saved);
  CHECK(saved.error().code == ErrorCode::io_error);
  std::filesystem::remove(folder);
}

TEST_CASE("a different string under a shared id is refused, with both strings and the three sizes",
          "[tokenizer][pain:T14]") {
  const auto student = toy_tokenizer({"<think>", "</think>"});
  const auto teacher = toy_tokenizer({"<think>", "<b>", "<c>"});
  const std::int32_t first_difference = *student->token_id("</think>");

  const auto verdict = check_compatible(*student, *teacher, first_difference + 1);

  REQUIRE_FALSE(verdict);
  CHECK(verdict.error().code == ErrorCode::tokenizer_mismatch);
  for (const std::string& part : {"id " + std::to_string(first_difference), std::string("\"</think>\""),
                                  std::string("\"<b>\""), "student vocabulary " + std::to_string(student->vocab_size()),
                                  "teacher vocabulary " + std::to_string(teacher->vocab_size()),
                                  "scored ids " + std::to_string(first_difference + 1)}) {
    CHECK(verdict.error().message.find(part) != std::string::npos);
  }
}

TEST_CASE("vocabularies of different size agree on the ids they share", "[tokenizer][pain:T14]") {
  auto small = train_bpe(std::vector<std::string>{}, {.vocab_size = 257, .added_tokens = {"<a>"}});
  auto large = train_bpe(std::vector<std::string>{}, {.vocab_size = 258, .added_tokens = {"<a>", "<b>"}});
  REQUIRE(small);
  REQUIRE(large);

  CHECK(check_compatible(*small, *large, 257));
  CHECK(check_compatible(*small, *large, 0));
  CHECK(check_compatible(*large, *small, 0));
  const auto too_many = check_compatible(*small, *large, 258);  // an id that the student does not have
  REQUIRE_FALSE(too_many);
  CHECK(too_many.error().message.find("scored ids must be 1..257") != std::string::npos);
  CHECK_FALSE(check_compatible(*small, *large, -1));
}

}  // namespace
}  // namespace memopd

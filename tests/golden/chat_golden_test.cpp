// Prompts of chat templates against apply_chat_template of `transformers`; make_chat_golden.py made what is read here.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "policies/text/chat_template.hpp"

namespace memopd {
namespace {

using nlohmann::json;

const std::filesystem::path kFolder = std::filesystem::path(MEMOPD_SOURCE_DIR) / "tests" / "golden";

json read_golden() {
  std::ifstream file(kFolder / "chat_golden.json");
  REQUIRE(file);
  return json::parse(file);
}

/// The format of a template of the golden file: from its text, or from its fingerprint where the text is not committed.
ChatFormat format_of(const json& entry, const std::string& bos_token) {
  if (entry["chat_template"].is_string()) {
    auto format = recognize_chat_template(entry["chat_template"].get<std::string>(), bos_token);
    REQUIRE(format);
    return *format;
  }
  auto format = format_by_fingerprint(std::stoull(entry["fingerprint"].get<std::string>(), nullptr, 16), bos_token);
  REQUIRE(format);
  return *format;
}

std::vector<ChatMessage> messages_of(const json& list) {
  std::vector<ChatMessage> messages;
  for (const json& message : list) {
    const std::string role = message["role"];
    messages.push_back({role, message["content"], role == "user" ? SpanKind::question : SpanKind::instruction});
  }
  return messages;
}

TEST_CASE("prompts are those of apply_chat_template", "[protocol][golden][CT-1]") {
  const json golden = read_golden();
  const auto tokenizer = Tokenizer::load(kFolder / "tokenizer_qwen2.json");
  REQUIRE(tokenizer);
  std::size_t num_cases = 0;
  for (const json& entry : golden["templates"]) {
    const ChatTemplate chat_template(format_of(entry, golden["bos_token"]));
    for (const json& c : golden["cases"]) {
      if (c["template"] != entry["name"]) {
        continue;
      }
      ++num_cases;
      INFO(c.dump());
      std::string text;
      std::vector<std::int32_t> ids;
      for (const ChatPiece& piece : chat_template.render(messages_of(c["messages"]), c["opens_assistant"])) {
        text += piece.text;
        const auto piece_ids = tokenizer->encode(piece.text, {.special_tokens = piece.is_markup});
        ids.insert(ids.end(), piece_ids.begin(), piece_ids.end());
      }
      CHECK(text == c["text"].get<std::string>());
      if (c.contains("ids")) {
        CHECK(ids == c["ids"].get<std::vector<std::int32_t>>());
      }
    }
  }
  CHECK(num_cases == 70);
}

TEST_CASE("a template's fingerprint is that of the golden file", "[protocol][golden]") {
  for (const json& entry : read_golden()["templates"]) {
    if (entry["chat_template"].is_string()) {
      CHECK(chat_template_fingerprint(entry["chat_template"].get<std::string>()) ==
            std::stoull(entry["fingerprint"].get<std::string>(), nullptr, 16));
    }
  }
}

}  // namespace
}  // namespace memopd

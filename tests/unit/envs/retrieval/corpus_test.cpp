#include "envs/retrieval/corpus.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/envs/scripted_play.hpp"

namespace memopd {
namespace {

using testing::must;
using testing::ScratchFolder;

TEST_CASE("the first line of contents is the title without its quotes", "[corpus]") {
  const Document document = must(parse_contents("7", "\"Sao \"Tome\"\"\nAn island.\nMore.", "c:1"));
  CHECK(document.id == "7");
  CHECK(document.title == "Sao \"Tome\"");
  CHECK(document.text == "An island.\nMore.");
  CHECK(document_contents(document) == "\"Sao \"Tome\"\"\nAn island.\nMore.");
}

TEST_CASE("a saved corpus is read back as it was", "[corpus]") {
  const ScratchFolder folder;
  const std::vector<Document> documents = {{"0", "A", "first", 0}, {"x1", "B \\ \"C\"", "second\nline", 0}};
  REQUIRE(save_corpus(folder.file("c.jsonl"), documents));
  const auto read = must(load_corpus(folder.file("c.jsonl")));
  REQUIRE(read.size() == 2);
  CHECK(read[1].id == "x1");
  CHECK(read[1].title == "B \\ \"C\"");
  CHECK(read[1].text == "second\nline");
}

TEST_CASE("a wrong corpus names file, line, found and allowed", "[corpus][error]") {
  const ScratchFolder folder;
  const std::string good = R"({"id": "1", "contents": "\"T\"\ntext"})";
  const auto message = [&](const std::string& second_line) {
    const auto file = folder.write("c.jsonl", good + "\n" + second_line + "\n");
    return load_corpus(file).error().message.substr(file.string().size());
  };
  CHECK(message("{").find(":2: no JSON, allowed is {\"id\"") == 0);
  CHECK(message("[]").find(":2: JSON, but no object") == 0);
  CHECK(message(R"({"id": 4, "contents": "\"T\"\nx"})").find(":2: `id` is number") == 0);
  CHECK(message(R"({"id": "4"})").find(":2: `contents` is missing") == 0);
  CHECK(message(R"({"id": "4", "contents": "T\nx"})").find(":2: the first line of `contents` is `T`, no title") == 0);
  CHECK(message(R"({"id": "4", "contents": "\"T\""})").find(":2: `contents` has no text") == 0);
  CHECK(message(good).find(":2: id `1` stands on an earlier line too") == 0);
  CHECK(load_corpus(folder.write("empty.jsonl", "")).error().code == ErrorCode::parse_error);
  CHECK(load_corpus(folder.file("none")).error().code == ErrorCode::not_found);
  CHECK(save_corpus(folder.file("no/such/folder"), {}).error().code == ErrorCode::io_error);
}

}  // namespace
}  // namespace memopd

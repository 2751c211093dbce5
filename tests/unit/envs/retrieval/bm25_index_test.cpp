#include "envs/retrieval/bm25_index.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <thread>

#include "tests/unit/envs/scripted_play.hpp"

namespace memopd {
namespace {

using testing::must;
using testing::ScratchFolder;

const std::vector<Document> kDocuments = {
    {"0", "Kenya", "Kenya is a country", 0},
    {"1", "Turkana", "Turkana is a county in Kenya", 0},
    {"2", "Saint John's", "The capital of Antigua", 0},
    {"3", "\xC3\x89vora", "A city of Portugal", 0},
};

std::vector<std::string> found_ids(const Bm25Index& index, std::string_view text, std::int32_t topk = 10) {
  std::vector<std::string> ids;
  for (const Document& document : must(index.query(text, topk))) {
    ids.push_back(document.id);
  }
  return ids;
}

TEST_CASE("scores are those of the stated formula", "[bm25]") {
  const Bm25Index index = must(Bm25Index::build(kDocuments, {.k1 = 0.9, .b = 0.4, .title_weight = 2}));
  // Lengths, a title word counting twice: 4 + 2, 6 + 2, 4 + 4 (saint johns), 4 + 2; mean 7. `kenya` is in 2 of 4.
  const double idf = std::log(1 + (4 - 2 + 0.5) / (2 + 0.5));
  const auto expected = [&](double frequency, double length) {
    return idf * frequency * 1.9 / (frequency + 0.9 * (1 - 0.4 + 0.4 * length / 7));
  };

  const auto found = must(index.query("kenya", 10));

  REQUIRE(found.size() == 2);
  CHECK(found[0].id == "0");
  CHECK(found[0].title == "Kenya");
  CHECK(found[0].text == "Kenya is a country");
  CHECK(found[0].score == Approx(expected(3, 6)));
  CHECK(found[1].id == "1");
  CHECK(found[1].score == Approx(expected(1, 8)));
}

TEST_CASE("a query word counts once however often it is repeated", "[bm25]") {
  const Bm25Index index = must(Bm25Index::build(kDocuments));
  CHECK(must(index.query("kenya Kenya KENYA", 1))[0].score == must(index.query("kenya", 1))[0].score);
}

TEST_CASE("case, diacritics and apostrophes do not matter", "[bm25]") {
  const Bm25Index index = must(Bm25Index::build(kDocuments));
  CHECK(found_ids(index, "EVORA") == std::vector<std::string>{"3"});
  CHECK(found_ids(index, "johns") == std::vector<std::string>{"2"});
  CHECK(found_ids(index, "John\xE2\x80\x99s") == std::vector<std::string>{"2"});
}

TEST_CASE("ties come in document order and topk bounds the list", "[bm25]") {
  const Bm25Index index = must(Bm25Index::build({{"a", "X", "same", 0}, {"b", "X", "same", 0}, {"c", "X", "same", 0}}));
  CHECK(found_ids(index, "same") == std::vector<std::string>{"a", "b", "c"});
  CHECK(found_ids(index, "same", 2) == std::vector<std::string>{"a", "b"});
}

TEST_CASE("any text is a valid query", "[bm25][error]") {
  const Bm25Index index = must(Bm25Index::build(kDocuments));
  for (const std::string text :
       {"kenya\"", "\"", "kenya OR (", "kenya NEAR(", "title:kenya", "kenya*", "^kenya", "-kenya", "kenya AND",
        "{kenya}", "kenya'; DROP TABLE documents; --", "kenya \xFF\xC3", "kenya ?1 + :x"}) {
    CAPTURE(text);
    const auto found = index.query(text, 3);
    REQUIRE(found);
    CHECK(found->empty() == (text == "\""));
  }
  CHECK(must(index.query("", 3)).empty());
  CHECK(must(index.query(std::string_view("kenya\0x", 7), 3)).size() == 2);
  std::string long_text;
  for (int i = 0; i < 5000; ++i) {
    long_text += "word" + std::to_string(i) + " ";
  }
  CHECK(index.query("kenya " + long_text, 3).value().size() == 2);
}

TEST_CASE("bad arguments are refused", "[bm25][error]") {
  CHECK(Bm25Index::build({}).error().code == ErrorCode::invalid_argument);
  CHECK(Bm25Index::build(kDocuments, {.k1 = -1}).error().code == ErrorCode::invalid_argument);
  CHECK(Bm25Index::build(kDocuments, {.b = std::nan("")}).error().code == ErrorCode::invalid_argument);
  CHECK(must(Bm25Index::build(kDocuments)).query("kenya", 0).error().code == ErrorCode::invalid_argument);
}

TEST_CASE("an index file gives the scores of its build without being told the options", "[bm25]") {
  const ScratchFolder folder;
  const Bm25Options options{.k1 = 1.5, .b = 0.1, .title_weight = 5};
  const double in_memory = must(must(Bm25Index::build(kDocuments, options)).query("kenya", 1))[0].score;
  CHECK(must(must(Bm25Index::build(kDocuments, folder.file("i.db"), options)).query("kenya", 1))[0].score == in_memory);

  const Bm25Index opened = must(Bm25Index::open(folder.file("i.db")));

  CHECK(opened.num_documents() == 4);
  CHECK(must(opened.query("kenya", 1))[0].score == in_memory);
}

TEST_CASE("an existing file is never overwritten and a failed build leaves nothing", "[bm25][error]") {
  const ScratchFolder folder;
  const auto file = folder.write("i.db", "mine");
  CHECK(Bm25Index::build(kDocuments, file).error().code == ErrorCode::already_exists);
  CHECK(std::filesystem::file_size(file) == 4);
  CHECK_FALSE(Bm25Index::build({}, folder.file("empty.db")));
  CHECK_FALSE(Bm25Index::build(kDocuments, folder.file("no/such/folder/i.db")));
  const std::filesystem::directory_iterator left(file.parent_path());
  CHECK(std::distance(begin(left), end(left)) == 1);
}

TEST_CASE("a file that is no complete index is refused with its name", "[bm25][error]") {
  const ScratchFolder folder;
  CHECK(Bm25Index::open(folder.file("none.db")).error().code == ErrorCode::not_found);
  const auto refused = [&](const std::filesystem::path& file) {
    const auto opened = Bm25Index::open(file);
    REQUIRE_FALSE(opened);
    CAPTURE(opened.error().message);
    CHECK(opened.error().code == ErrorCode::parse_error);
    CHECK(opened.error().message.find(file.string()) != std::string::npos);
  };
  refused(folder.write("text.db", std::string(10000, 'x')));
  refused(folder.write("empty.db", ""));
  REQUIRE(Bm25Index::build(kDocuments, folder.file("i.db")));
  std::filesystem::copy(folder.file("i.db"), folder.file("cut.db"));
  std::filesystem::resize_file(folder.file("cut.db"), std::filesystem::file_size(folder.file("i.db")) / 2);
  refused(folder.file("cut.db"));
  std::fstream broken(folder.file("i.db"), std::ios::in | std::ios::out | std::ios::binary);
  broken.seekp(4096);
  broken << std::string(4096, '\x7F');
  broken.close();
  refused(folder.file("i.db"));
}

TEST_CASE("a repeated query is a cache hit and is answered alike", "[bm25][pain:T26]") {
  const Bm25Index index = must(Bm25Index::build(kDocuments));
  const auto first = found_ids(index, "kenya county");
  CHECK(found_ids(index, "Kenya, county?") == first);
  CHECK(index.counters().num_queries == 2);
  CHECK(index.counters().num_cache_hits == 1);
  CHECK(found_ids(index, "kenya county", 1).size() == 1);  // another topk is another query
  CHECK(index.counters().num_cache_hits == 1);
}

TEST_CASE("threads may share an index", "[bm25]") {
  const Bm25Index index = must(Bm25Index::build(kDocuments));
  std::vector<std::size_t> found(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < found.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) {
        found[i] += index.query_batch({"kenya", "portugal word" + std::to_string(round)}, 2).value()[1].size();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(found == std::vector<std::size_t>(4, 50));
}

}  // namespace
}  // namespace memopd

// Ids and pieces of every line of the hard corpus against the `tokenizers` package, by hashes that
// make_hard_golden.py wrote.
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "policies/text/tokenizer.hpp"
#include "policies/text/tokenizer_json.hpp"
#include "tests/golden/hard_corpus.hpp"

namespace memopd {
namespace {

using nlohmann::json;

const std::filesystem::path kRoot = MEMOPD_SOURCE_DIR;
const std::filesystem::path kFolder = kRoot / "tests" / "golden";

/// hard_golden.txt: names of the tokenizers, then for each line of the corpus one hash each.
struct Golden {
  std::vector<std::string> names;
  std::vector<std::vector<std::uint32_t>> hashes;  // [line][tokenizer]

  Golden() {
    std::ifstream file(kFolder / "hard_golden.txt");
    std::string line;
    REQUIRE(std::getline(file, line));
    std::istringstream header(line);
    names.assign(std::istream_iterator<std::string>(header), {});
    while (std::getline(file, line)) {
      std::istringstream fields(line);
      fields >> std::hex;
      hashes.emplace_back(std::istream_iterator<std::uint32_t>(fields), std::istream_iterator<std::uint32_t>());
    }
  }
};

class Hash {
 public:
  template <class Numbers>
  void add(const Numbers& numbers) {
    for (const auto number : numbers) {
      add_one(static_cast<std::uint32_t>(number));
    }
    add_one(0xFFFFFFFF);
  }
  [[nodiscard]] std::uint32_t value() const {
    return static_cast<std::uint32_t>((value_ ^ (value_ >> 24) ^ (value_ >> 48)) & 0xFFFFFF);
  }

 private:
  void add_one(std::uint32_t number) { value_ = (value_ ^ number) * 0x100000001B3ULL; }
  std::uint64_t value_ = 0xCBF29CE484222325ULL;
};

/// Lines of the corpus whose hash differs from the golden one; at most ten.
std::vector<std::size_t> differing_lines(const std::filesystem::path& path, const std::string& name) {
  static const Golden golden;
  static const testing::HardCorpus corpus(kFolder / "hard_corpus.json");
  REQUIRE(golden.hashes.size() == corpus.lines().size());
  const auto column =
      static_cast<std::size_t>(std::find(golden.names.begin(), golden.names.end(), name) - golden.names.begin());
  REQUIRE(column < golden.names.size());
  const auto tokenizer = Tokenizer::load(path);
  REQUIRE(tokenizer);
  std::ifstream stream(path);
  const json file = json::parse(stream);
  const auto normal_form = detail::read_normalizer(file["normalizer"]);
  const auto patterns = detail::read_pre_tokenizer(file["pre_tokenizer"]);
  REQUIRE(patterns);

  std::vector<std::size_t> lines;
  for (std::size_t line = 0; line < corpus.lines().size() && lines.size() < 10; ++line) {
    const std::string& text = corpus.lines()[line];
    std::vector<std::size_t> sizes;
    for (const ByteRange& piece : detail::pre_tokenize(*patterns, normalize_unicode9(text, *normal_form))) {
      sizes.push_back(piece.end - piece.begin);
    }
    Hash hash;
    hash.add(tokenizer->encode(text, {.special_tokens = true}));
    hash.add(tokenizer->encode(text));
    hash.add(sizes);
    if (hash.value() != golden.hashes[line].at(column)) {
      lines.push_back(line);
    }
  }
  return lines;
}

TEST_CASE("every line of the hard corpus has the ids and pieces of the tokenizers package", "[tokenizer][golden]") {
  for (const char* variant : {"qwen2", "gpt2", "llama3", "smollm", "strip"}) {
    INFO(variant << ": make_hard_golden.py --explain LINE " << variant << " shows what the package makes of a line");
    CHECK(differing_lines(kFolder / ("tokenizer_" + std::string(variant) + ".json"), variant) ==
          std::vector<std::size_t>{});
  }
}

// Hidden: its tokenizer is not committed (tools/data/get smollm2).
TEST_CASE("every line of the hard corpus has the ids that SmolLM2's own tokenizer gives", "[.smollm2][golden]") {
  CHECK(differing_lines(kRoot / ".deps" / "data" / "smollm2" / "tokenizer.json", "smollm2") ==
        std::vector<std::size_t>{});
}

TEST_CASE("text without a normal form comes back from its ids, whatever its bytes", "[tokenizer][golden][AP-1]") {
  const testing::HardCorpus corpus(kFolder / "hard_corpus.json");
  const auto tokenizer = Tokenizer::load(kFolder / "tokenizer_gpt2.json");
  REQUIRE(tokenizer);
  std::size_t num_different = 0;
  for (const std::string& text : corpus.lines()) {
    num_different += tokenizer->decode(tokenizer->encode(text)) == text ? 0 : 1;
    num_different += tokenizer->decode(tokenizer->encode(text, {.special_tokens = true})) == text ? 0 : 1;
  }
  CHECK(num_different == 0);
}

}  // namespace
}  // namespace memopd

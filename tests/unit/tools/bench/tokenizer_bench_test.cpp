#include "tools/bench/tokenizer_bench.hpp"

#include <catch2/catch.hpp>

namespace memopd {
namespace {

TokenizerBenchOptions small() {
  const std::filesystem::path root = MEMOPD_SOURCE_DIR;
  TokenizerBenchOptions options;
  options.tokenizer = root / "tests" / "golden" / "tokenizer_qwen2.json";
  options.source = root / "policies";
  options.peer_python = "no such python";
  options.num_repetitions = 1;
  options.max_bytes = 20000;
  return options;
}

TEST_CASE("without the peer ours is measured, and the row says why there is no ratio", "[bench]") {
  const auto rows = bench_tokenizer(small());

  REQUIRE(rows);
  REQUIRE(rows->size() == 3);
  for (const TokenizerBenchRow& row : *rows) {
    CHECK(row.ours_mb_s > 0);
    CHECK(row.num_ids > 0);
    CHECK(row.size_bytes > 10000);
    CHECK(row.size_bytes < 30000);
    CHECK(row.ratio() == 0);
    CHECK(row.peer.find("tools/bench/peers") != std::string::npos);
  }
  CHECK(to_json(*rows).find("\"ids_are_equal\": false") != std::string::npos);
}

TEST_CASE("a peer that fails, a source without texts and no repetitions are errors", "[bench][error]") {
  TokenizerBenchOptions failing = small();
  failing.peer_python = "/bin/false";
  CHECK(bench_tokenizer(failing).error().code == ErrorCode::io_error);

  TokenizerBenchOptions silent = small();
  silent.peer_python = "/bin/true";
  CHECK(bench_tokenizer(silent).error().message.find("something else") != std::string::npos);

  TokenizerBenchOptions empty = small();
  empty.source = "/nowhere";
  CHECK(bench_tokenizer(empty).error().message.find("/nowhere") != std::string::npos);

  TokenizerBenchOptions none = small();
  none.num_repetitions = 0;
  CHECK(bench_tokenizer(none).error().code == ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace memopd

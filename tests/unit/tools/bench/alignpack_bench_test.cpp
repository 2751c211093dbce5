#include "tools/bench/alignpack_bench.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

namespace memopd {
namespace {

/// A model and lengths small enough for a test; memopd_like keeps its own lengths.
AlignPackBenchOptions small_options() {
  AlignPackBenchOptions options;
  options.quickstart_lengths = std::filesystem::path(MEMOPD_BINARY_DIR) / "alignpack_bench_test.tsv";
  std::ofstream(options.quickstart_lengths) << "task\ttrajectory\tcall\tinstruction\tquestion\tkept\tobservation\t"
                                               "response\n0\t0\t0\t1\t2\t0\t0\t5\n0\t0\t1\t1\t2\t5\t3\t4\n";
  options.model.vocab_size = 64;
  options.model.hidden_size = 16;
  options.model.intermediate_size = 16;
  options.model.num_hidden_layers = 1;
  options.model.num_attention_heads = 2;
  options.model.num_key_value_heads = 2;
  options.model.head_dim = 8;
  options.num_repetitions = 1;
  return options;
}

}  // namespace

TEST_CASE("bench_alignpack counts the tokens of every layout and finds the same log-probs", "[bench][AP-5]") {
  const auto rows = bench_alignpack(small_options());

  REQUIRE(rows);
  REQUIRE(rows->size() == 2);
  const AlignPackBenchRow& row = rows->front();
  CHECK(row.name == "quickstart");
  CHECK(row.tokens_padded == 2 * 15);
  CHECK(row.tokens_packed == 8 + 15);
  CHECK(row.tokens_shared == 15);
  for (const AlignPackBenchRow& each : *rows) {
    CHECK(each.max_abs_diff < 1e-5);
    CHECK(each.padded_all_rows_s > 0);
    CHECK(each.padded_s > 0);
    CHECK(each.packed_s > 0);
    CHECK(each.shared_s > 0);
  }
  CHECK((*rows)[1].name == "memopd_like");
  CHECK((*rows)[1].tokens_shared < (*rows)[1].tokens_packed);
}

TEST_CASE("to_json has the keys of a row and the ratios of its times", "[bench]") {
  AlignPackBenchRow row;
  row.name = "quickstart";
  row.tokens_shared = 14;
  row.padded_all_rows_s = 8;
  row.padded_s = 4;
  row.packed_s = 2;
  row.shared_s = 1;

  const auto json = nlohmann::json::parse(to_json({row}));

  REQUIRE(json.size() == 1);
  CHECK(json[0].size() == 12);
  CHECK(json[0]["tokens_shared"] == 14);
  CHECK(json[0]["speedup_vs_padded_all_rows"] == 8.0);
  CHECK(json[0]["speedup_vs_padded"] == 4.0);
  CHECK(json[0]["speedup_vs_packed"] == 2.0);
}

TEST_CASE("bench_alignpack refuses options out of range and calls beyond the budget", "[bench][error]") {
  AlignPackBenchOptions options = small_options();
  options.num_repetitions = 0;
  CHECK(bench_alignpack(options).error().message == "num_repetitions is 0, allowed >= 1");

  options = small_options();
  options.quickstart_max_tokens = 8;
  CHECK(bench_alignpack(options).error().code == ErrorCode::invocation_too_long);
}

}  // namespace memopd

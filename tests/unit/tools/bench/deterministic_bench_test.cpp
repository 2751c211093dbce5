#include "tools/bench/deterministic_bench.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

namespace memopd {
namespace {

DeterministicBenchOptions small_options() {
  DeterministicBenchOptions options;
  options.lengths = std::filesystem::path(MEMOPD_BINARY_DIR) / "deterministic_bench_test.tsv";
  std::ofstream(options.lengths) << "task\ttrajectory\tcall\tinstruction\tquestion\tkept\tobservation\tresponse\n"
                                    "0\t0\t0\t1\t2\t0\t0\t5\n0\t0\t1\t1\t2\t5\t3\t4\n";
  options.model.vocab_size = 64;
  options.model.hidden_size = 16;
  options.model.intermediate_size = 16;
  options.model.num_hidden_layers = 1;
  options.model.num_attention_heads = 2;
  options.model.num_key_value_heads = 2;
  options.model.head_dim = 8;
  options.model.max_position_embeddings = 64;
  options.num_slots = {2};
  options.num_repetitions = 1;
  return options;
}

}  // namespace

TEST_CASE("bench_deterministic counts sampled and unique tokens and times both modes", "[bench][RL-7]") {
  const auto bench = bench_deterministic(small_options());

  REQUIRE(bench);
  REQUIRE(bench->rows.size() == 2);
  CHECK(bench->rows[0].name == "engine_2");
  CHECK(bench->rows[0].tokens == 5 + 4);
  CHECK(bench->rows[1].name == "scorer");
  CHECK(bench->rows[1].tokens == 15);
  for (const DeterministicBenchRow& row : bench->rows) {
    CHECK(row.ordinary_s > 0);
    CHECK(row.deterministic_s > 0);
  }
}

TEST_CASE("the cost of deterministic mode is the ratio of its time", "[bench]") {
  const DeterministicBench bench{.lengths = "two calls", .rows = {{"scorer", 100, 2.0, 5.0}}};

  const auto json = nlohmann::json::parse(to_json(bench));

  CHECK(json.at("lengths") == "two calls");
  CHECK(json.at("rows")[0].at("name") == "scorer");
  CHECK(json.at("rows")[0].at("ordinary_tokens_per_s") == 50.0);
  CHECK(json.at("rows")[0].at("deterministic_tokens_per_s") == 20.0);
  CHECK(json.at("rows")[0].at("cost") == 2.5);
  CHECK(to_table(bench).find("2.50 x the time") != std::string::npos);
}

TEST_CASE("bench_deterministic refuses options out of range and calls that do not fit", "[bench][error]") {
  const auto code = [](auto change) {
    DeterministicBenchOptions options = small_options();
    change(options);
    return bench_deterministic(options).error().code;
  };
  CHECK(code([](auto& options) { options.num_slots = {0}; }) == ErrorCode::invalid_argument);
  CHECK(code([](auto& options) { options.num_repetitions = 0; }) == ErrorCode::invalid_argument);
  CHECK(code([](auto& options) { options.lengths = "absent.tsv"; }) == ErrorCode::not_found);
  CHECK(code([](auto& options) { options.max_tokens = 14; }) == ErrorCode::invocation_too_long);
  CHECK(code([](auto& options) { options.model.max_position_embeddings = 8; }) == ErrorCode::invalid_argument);
}

}  // namespace memopd

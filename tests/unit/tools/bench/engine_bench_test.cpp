#include "tools/bench/engine_bench.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/bench/scratch_folder.hpp"

namespace memopd {
namespace {

EngineBenchOptions small_options() {
  EngineBenchOptions options;
  options.num_trajectories = 2;
  options.prefix_cache_tokens = 1 << 16;
  return options;
}

/// A peer in the shell: what it prints is `output`.
std::filesystem::path shell_peer(const ScratchFolder& folder, const std::string& output) {
  const std::filesystem::path path = folder.path() / "peer";
  std::ofstream(path) << "#!/bin/sh\nprintf '%s' '" << output << "'\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

}  // namespace

TEST_CASE("bench_engine serves every call of the agents and finds what they share", "[bench]") {
  const auto bench = bench_engine(small_options());

  REQUIRE(bench);
  CHECK(bench->model == "quickstart");
  CHECK(bench->tokens > 0);
  CHECK(bench->ours_tok_s > 0);
  CHECK(bench->ttft_ms > 0);
  CHECK(bench->cache_hit_frac > 0.3);  // 300 instruction tokens of prompts of some 900, and what a trajectory repeats
  CHECK(bench->prefill_frac + bench->decode_frac == Approx(1));
  CHECK(bench->decode_batch > 1);
  CHECK(bench->decode_batch <= 2);
  CHECK(bench->peer_batch == 0);
  CHECK(bench->ratio() == 0);

  auto cold = small_options();
  cold.prefix_cache_tokens = 0;
  CHECK(bench_engine(cold)->cache_hit_frac == 0);
  CHECK(bench_engine(cold)->tokens == bench->tokens);
}

TEST_CASE("bench_engine compares with the peer's best batch", "[bench]") {
  const ScratchFolder folder;
  auto options = small_options();
  options.peer_python =
      shell_peer(folder, R"({"version":"1.2","rows":[{"batch":1,"seconds":2,"tokens":10},)"
                         R"({"batch":4,"seconds":1,"tokens":10},{"batch":8,"seconds":4,"tokens":10}]})");
  const auto bench = bench_engine(options);

  REQUIRE(bench);
  CHECK(bench->peer == "transformers 1.2");
  CHECK(bench->peer_batch == 4);
  CHECK(bench->peer_tok_s == 10);
  const auto json = nlohmann::json::parse(to_json(*bench));
  CHECK(json.at("ratio") == Approx(bench->ours_tok_s / 10));
  CHECK(to_table(*bench).find("batch 4") != std::string::npos);
}

TEST_CASE("bench_engine refuses options out of range, and says when a peer fails", "[bench][error]") {
  const auto code = [](auto change) {
    auto options = small_options();
    change(options);
    return bench_engine(options).error().code;
  };
  const ScratchFolder folder;
  CHECK(code([](auto& options) { options.num_trajectories = 9; }) == ErrorCode::invalid_argument);
  CHECK(code([](auto& options) { options.peer_batches = {0}; }) == ErrorCode::invalid_argument);
  CHECK(code([](auto& options) { options.max_sequences = 0; }) == ErrorCode::invalid_argument);
  CHECK(code([](auto& options) { options.model = "absent"; }) == ErrorCode::not_found);
  CHECK(code([&](auto& options) { options.peer_python = shell_peer(folder, "no JSON"); }) == ErrorCode::io_error);
  CHECK(code([](auto& options) { options.peer_python = "/bin/false"; }) == ErrorCode::io_error);
}

}  // namespace memopd

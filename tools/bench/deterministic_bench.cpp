#include "tools/bench/deterministic_bench.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "policies/engine/engine.hpp"
#include "policies/model/checkpoint.hpp"
#include "policies/model/initialization.hpp"
#include "policies/model/scorer.hpp"
#include "runtime/alignpack/align_pack.hpp"
#include "tools/bench/call_lengths.hpp"
#include "tools/bench/scratch_folder.hpp"

namespace memopd {
namespace {

/// Seconds of what `run(is_deterministic)` does, both ways by turns.
template <class Run>
Expected<void> time_both(std::int32_t num_repetitions, DeterministicBenchRow& row, const Run& run) {
  row.ordinary_s = row.deterministic_s = std::numeric_limits<double>::infinity();
  for (std::int32_t repetition = -1; repetition < num_repetitions; ++repetition) {
    for (const bool is_deterministic : {false, true}) {
      const auto begin = std::chrono::steady_clock::now();
      MEMOPD_RETURN_IF_ERROR(run(is_deterministic));
      const std::chrono::duration<double> duration = std::chrono::steady_clock::now() - begin;
      double& best = is_deterministic ? row.deterministic_s : row.ordinary_s;
      if (repetition >= 0) best = std::min(best, duration.count());
    }
  }
  return {};
}

std::int32_t longest_call(std::span<const Trajectory> trajectories) {
  std::size_t longest = 0;
  for (const Trajectory& trajectory : trajectories) {
    for (const Invocation& call : trajectory.invocations) {
      longest = std::max(longest, call.prompt_token_ids.size() + call.response_token_ids.size());
    }
  }
  return static_cast<std::int32_t>(longest);
}

Expected<DeterministicBenchRow> bench_engine(const std::filesystem::path& model, std::span<const Trajectory> calls,
                                             std::int32_t num_slots, const DeterministicBenchOptions& options) {
  std::unique_ptr<Engine> engines[2];
  for (const bool is_deterministic : {false, true}) {
    auto engine = Engine::create(model, nullptr,
                                 {.max_sequences = num_slots,
                                  .max_batch_tokens = options.max_tokens,
                                  .max_context_tokens = longest_call(calls),
                                  .is_deterministic = is_deterministic});
    if (!engine) return unexpected(engine.error());
    engines[is_deterministic ? 1 : 0] = std::move(*engine);
  }
  DeterministicBenchRow row{.name = "engine_" + std::to_string(num_slots)};
  MEMOPD_RETURN_IF_ERROR(time_both(options.num_repetitions, row, [&](bool is_deterministic) -> Expected<void> {
    Engine& engine = *engines[is_deterministic ? 1 : 0];
    const std::int64_t before = engine.counters().generated_tokens;
    std::uint64_t id = 0;
    for (const Trajectory& trajectory : calls) {
      for (const Invocation& call : trajectory.invocations) {
        const auto length = static_cast<std::int32_t>(call.response_token_ids.size());
        MEMOPD_RETURN_IF_ERROR(engine.submit({.request_id = ++id,
                                              .prompt_token_ids = call.prompt_token_ids,
                                              .sampling = {.max_response_tokens = length, .seed = id}}));
      }
    }
    while (!engine.is_idle()) static_cast<void>(engine.step());
    row.tokens = engine.counters().generated_tokens - before;
    return {};
  }));
  return row;
}

Expected<DeterministicBenchRow> bench_scorer(const std::filesystem::path& model, std::span<const Trajectory> calls,
                                             const DeterministicBenchOptions& options) {
  std::unique_ptr<Scorer> scorers[2];
  for (const bool is_deterministic : {false, true}) {
    auto scorer = Scorer::load(model, {.is_deterministic = is_deterministic});
    if (!scorer) return unexpected(scorer.error());
    scorers[is_deterministic ? 1 : 0] = std::move(*scorer);
  }
  const auto packs = align_pack(calls, {.max_tokens = options.max_tokens});
  if (!packs) return unexpected(packs.error());
  DeterministicBenchRow row{.name = "scorer"};
  for (const PackedBatch& pack : *packs) row.tokens += pack.num_tokens();
  MEMOPD_RETURN_IF_ERROR(time_both(options.num_repetitions, row, [&](bool is_deterministic) -> Expected<void> {
    for (const PackedBatch& pack : *packs) {
      const auto scores = scorers[is_deterministic ? 1 : 0]->score(pack);
      if (!scores) return unexpected(scores.error());
    }
    return {};
  }));
  return row;
}

Expected<void> check_options(const DeterministicBenchOptions& options) {
  std::int32_t smallest = std::min(options.max_tokens, options.num_repetitions);
  for (const std::int32_t num_slots : options.num_slots) smallest = std::min(smallest, num_slots);
  if (smallest >= 1) return {};
  return unexpected(ErrorCode::invalid_argument,
                    "num_slots, max_tokens or num_repetitions is " + std::to_string(smallest) + ", allowed >= 1");
}

}  // namespace

Expected<DeterministicBench> bench_deterministic(const DeterministicBenchOptions& options) {
  MEMOPD_RETURN_IF_ERROR(check_options(options));
  const auto lengths = read_call_lengths(options.lengths);
  if (!lengths) return unexpected(lengths.error());
  const auto model = random_transformer(options.model, {.seed = options.seed});
  if (!model) return unexpected(model.error());
  const ScratchFolder folder;
  if (folder.path().empty()) return unexpected(ErrorCode::io_error, "no temporary folder for the model");
  MEMOPD_RETURN_IF_ERROR(save_transformer(folder.path(), *model));
  const auto calls = trajectories_of(*lengths, options.model.vocab_size, options.seed);
  DeterministicBench bench{.lengths = describe(*lengths), .rows = {}};
  for (const std::int32_t num_slots : options.num_slots) {
    auto row = bench_engine(folder.path(), calls, num_slots, options);
    if (!row) return unexpected(row.error());
    bench.rows.push_back(std::move(*row));
  }
  auto row = bench_scorer(folder.path(), calls, options);
  if (!row) return unexpected(row.error());
  bench.rows.push_back(std::move(*row));
  return bench;
}

std::string to_json(const DeterministicBench& bench) {
  auto rows = nlohmann::ordered_json::array();
  for (const DeterministicBenchRow& row : bench.rows) {
    rows.push_back({{"name", row.name},
                    {"tokens", row.tokens},
                    {"ordinary_tokens_per_s", row.ordinary_tokens_per_s()},
                    {"deterministic_tokens_per_s", row.deterministic_tokens_per_s()},
                    {"cost", row.cost()}});
  }
  return nlohmann::ordered_json{{"lengths", bench.lengths}, {"rows", std::move(rows)}}.dump(2);
}

std::string to_table(const DeterministicBench& bench) {
  std::string text = bench.lengths + "\n";
  for (const DeterministicBenchRow& row : bench.rows) {
    // Not fmt: the tensor library's include folder holds another one.
    std::array<char, 160> line{};
    std::snprintf(line.data(), line.size(),
                  "  %-10s %8lld tokens   ordinary %9.0f /s   deterministic %9.0f /s   %.2f x the time\n",
                  row.name.c_str(), static_cast<long long>(row.tokens), row.ordinary_tokens_per_s(),
                  row.deterministic_tokens_per_s(), row.cost());
    text += line.data();
  }
  return text;
}

}  // namespace memopd

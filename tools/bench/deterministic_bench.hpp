// What deterministic mode (RL-7) costs: generation and scoring of the same calls in both modes, in one run.
//
// engine  every call is a request with its recorded prompt and response length; tokens = sampled tokens
// scorer  every trajectory is packed and scored as a teacher does it; tokens = unique tokens
// Repetitions of the two modes are interleaved, the time of a mode is its fastest repetition.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "policies/model/model_config.hpp"
#include "runtime/base/expected.hpp"
#include "tools/bench/alignpack_bench.hpp"

namespace memopd {

struct DeterministicBenchOptions {
  std::filesystem::path lengths;  ///< tools/bench/data/quickstart_lengths.tsv, or a recording of your own
  ModelConfig model = quickstart_student();
  std::vector<std::int32_t> num_slots = {8, 32, 64};  ///< sequences that the engine decodes at a time; each >= 1
  std::int32_t max_tokens = 4096;                     ///< token budget of a prefill and of a pack; >= 1
  std::int32_t num_repetitions = 3;                   ///< >= 1; after one that warms up
  std::uint64_t seed = 1;                             ///< of the weights, the ids and the sampling
};

struct DeterministicBenchRow {
  std::string name;  ///< "engine_<slots>" | "scorer"
  std::int64_t tokens = 0;
  double ordinary_s = 0;
  double deterministic_s = 0;

  [[nodiscard]] double ordinary_tokens_per_s() const { return static_cast<double>(tokens) / ordinary_s; }
  [[nodiscard]] double deterministic_tokens_per_s() const { return static_cast<double>(tokens) / deterministic_s; }
  [[nodiscard]] double cost() const { return deterministic_s / ordinary_s; }
};

struct DeterministicBench {
  std::string lengths;  ///< the length distribution in words
  std::vector<DeterministicBenchRow> rows;
};

/// Takes the threads of an operation as they are set. Writes the model to a temporary folder and removes it.
/// @error not_found, parse_error  the file of lengths
/// @error invalid_argument        an option or a model out of range, a call longer than the model's positions
/// @error invocation_too_long     a call longer than the token budget
Expected<DeterministicBench> bench_deterministic(const DeterministicBenchOptions& options);

/// The object that `memopd bench deterministic --json` prints.
std::string to_json(const DeterministicBench& bench);

/// The same for people.
std::string to_table(const DeterministicBench& bench);

}  // namespace memopd

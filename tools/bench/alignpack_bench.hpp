// What packing saves: the actor's forward and backward pass over the same calls in four layouts, in one run.
//
// padded_all_rows  every call padded to the longest, head on every row
// padded           the same, head on the response rows only
// packed           AlignPack without sharing: every token once per call
// shared           AlignPack with shared prefixes
// All have the same weights and the same token budget per micro-batch. Repetitions of the layouts are interleaved, the
// time of a layout is its fastest repetition, and log-probs are compared between layouts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "policies/model/model_config.hpp"
#include "runtime/base/expected.hpp"

namespace memopd {

/// The student of the quickstart: 96 wide, 3 layers, 4 heads, 4,096 tokens.
ModelConfig quickstart_student();

struct AlignPackBenchOptions {
  std::filesystem::path quickstart_lengths;  ///< tools/bench/data/quickstart_lengths.tsv, or a recording of your own
  ModelConfig model = quickstart_student();
  std::int32_t quickstart_max_tokens = 4096;   ///< token budget of a micro-batch; >= 1
  std::int32_t memopd_like_max_tokens = 8192;  ///< likewise
  std::int32_t num_repetitions = 5;            ///< >= 1; after one that warms up
  std::int32_t num_threads = 1;                ///< >= 1
  std::uint64_t seed = 1;                      ///< of the weights, the ids and the memopd_like lengths
};

struct AlignPackBenchRow {
  std::string name;     ///< "quickstart" | "memopd_like"
  std::string lengths;  ///< the length distribution in words
  std::int64_t tokens_padded = 0;
  std::int64_t tokens_packed = 0;
  std::int64_t tokens_shared = 0;
  double padded_all_rows_s = 0;  ///< seconds, forward + backward of all calls
  double padded_s = 0;
  double packed_s = 0;
  double shared_s = 0;
  double max_abs_diff = 0;  ///< of a response token's log-prob, over all pairs of layouts

  [[nodiscard]] double speedup_vs_padded_all_rows() const { return padded_all_rows_s / shared_s; }
  [[nodiscard]] double speedup_vs_padded() const { return padded_s / shared_s; }
  [[nodiscard]] double speedup_vs_packed() const { return packed_s / shared_s; }
};

/// @error not_found, parse_error  the file of lengths
/// @error invalid_argument        an option or a model out of range
/// @error invocation_too_long     a call longer than the token budget
/// Sets the tensor library's threads while it runs: nothing else may use it then.
Expected<std::vector<AlignPackBenchRow>> bench_alignpack(const AlignPackBenchOptions& options);

/// The array of objects that `memopd bench alignpack --json` prints.
std::string to_json(const std::vector<AlignPackBenchRow>& rows);

/// The same for people, with the length distributions.
std::string to_table(const std::vector<AlignPackBenchRow>& rows);

}  // namespace memopd

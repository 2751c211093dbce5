// Generation for the calls of agents: our engine beside the package `transformers`, over the same requests, in one run.
//
// Requests are the calls of memopd_like_lengths with random ids. Ours come as agents send them: a trajectory's next call
// once the one before it has ended. The peer has all of them at once, in batches of similar response length, which is
// kinder to it than any order of agents. Greedy on both sides; a response ends at its length and nowhere else.
// Each side answers all requests once, warmed up by one short request.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

struct EngineBenchOptions {
  std::filesystem::path model;         ///< Hugging Face folder; empty = the quickstart's shape with random weights
  std::filesystem::path source = ".";  ///< root of the source tree, where the script of the peer is
  std::filesystem::path peer_python;   ///< absent = ours alone
  std::vector<std::int32_t> peer_batches = {1, 4, 8, 16};  ///< the fastest counts; each >= 1
  std::int32_t num_trajectories = 8;                       ///< of the workload; 1 to 8
  std::int32_t num_threads = 1;                            ///< of one operation, both sides; >= 1; set by the caller
  std::int32_t max_sequences = 64;                         ///< >= 1
  std::int32_t prefix_cache_tokens = 16384;                ///< >= 0
  std::uint64_t seed = 1;                                  ///< of lengths, ids and random weights
};

struct EngineBench {
  std::string model;
  std::string lengths;  ///< the length distribution in words
  std::int64_t tokens = 0;
  double ours_tok_s = 0;      ///< response tokens a second
  double ttft_ms = 0;         ///< from submit to the first token, mean over requests
  double cache_hit_frac = 0;  ///< of the prompts' tokens
  double prefill_frac = 0;    ///< of the time: steps that read prompts, with the one token that they decode
  double decode_frac = 0;     ///< of the time: steps that only decode
  double decode_batch = 0;    ///< mean tokens of such a step
  std::string peer;           ///< "transformers 5.24.0", or why it is absent
  double peer_tok_s = 0;      ///< at peer_batch; 0 = absent
  std::int32_t peer_batch = 0;
  std::vector<double> peer_tok_s_of_batches;

  [[nodiscard]] double ratio() const { return peer_tok_s > 0 ? ours_tok_s / peer_tok_s : 0; }
};

/// Writes requests, and a model where none is named, to a temporary folder and removes it.
/// @error those of load_transformer
/// @error invalid_argument  an option out of range
/// @error io_error          no temporary folder, or the peer fails
Expected<EngineBench> bench_engine(const EngineBenchOptions& options);

/// The object that `memopd bench engine --json` prints.
std::string to_json(const EngineBench& bench);

/// The same for people.
std::string to_table(const EngineBench& bench);

}  // namespace memopd

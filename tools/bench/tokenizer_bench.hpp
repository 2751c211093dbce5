// Megabytes of text a second on one thread: our tokenizer against the PyPI package `tokenizers`, in one run.
//
// prose  the documentation of this tree      code  its sources      unicode  random words of many scripts
// Texts are cut into documents of about 2,000 bytes, as observations are. Ours and the package take turns; the time of
// each is its fastest repetition. The package runs in a Python of its own (tools/bench/peers installs it) with its
// threads off, by the faster of `encode` and `encode_batch_fast`; ids of all documents are compared.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

struct TokenizerBenchOptions {
  std::filesystem::path tokenizer;                               ///< folder or tokenizer.json
  std::filesystem::path source = ".";                            ///< root of the tree, for prose and code
  std::filesystem::path peer_python = ".deps/peers/bin/python";  ///< absent = only ours is measured
  std::int32_t num_repetitions = 5;                              ///< of both sides; >= 1
  std::int64_t max_bytes = 2 << 20;                              ///< of each text; >= 2,000
  std::uint64_t seed = 1;                                        ///< of the text unicode
};

struct TokenizerBenchRow {
  std::string text;
  std::int64_t size_bytes = 0;
  std::int64_t num_ids = 0;
  double ours_mb_s = 0;
  double peer_mb_s = 0;        ///< 0 = not measured
  std::string peer;            ///< version and call, or why it was not measured
  bool ids_are_equal = false;  ///< false too when there is no peer

  [[nodiscard]] double ratio() const { return peer_mb_s > 0 ? ours_mb_s / peer_mb_s : 0; }
};

/// @error not_found, parse_error, unsupported  the tokenizer
/// @error invalid_argument  an option out of range, a source without files
/// @error io_error          the peer fails or says something else than it should
Expected<std::vector<TokenizerBenchRow>> bench_tokenizer(const TokenizerBenchOptions& options);

/// The array of objects that `memopd bench tokenizer --json` prints, and the same for people.
std::string to_json(const std::vector<TokenizerBenchRow>& rows);
std::string to_table(const std::vector<TokenizerBenchRow>& rows);

}  // namespace memopd

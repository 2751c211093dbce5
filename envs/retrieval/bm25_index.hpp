// Full-text search over documents: an SQLite FTS5 index, ranked by BM25.
//
// score(d) = sum over distinct query words of idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean length))
// idf      = ln(1 + (N - n + 0.5) / (n + 0.5)); tf and length count a title word `title_weight` times.
// Robertson and Zaragoza (2009). FTS5's own bm25() fixes k1 and b and drops words that half of the documents have.
// Words: runs of letters and digits, case and diacritics folded, apostrophes dropped (Saint John's = saint johns).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/data/task.hpp"

namespace memopd {

struct Bm25Options {
  double k1 = 0.9;            ///< 0..10
  double b = 0.4;             ///< 0..1
  double title_weight = 2.0;  ///< how often a title word counts beside the text's own; 0..100
};

struct Bm25Counters {
  std::uint64_t num_queries = 0;
  std::uint64_t num_cache_hits = 0;
};

/// Thread-safe: one connection behind a lock; open the same file several times for parallel queries.
class Bm25Index {
 public:
  /// Builds in memory. @error invalid_argument  no documents, or an option outside its range
  static Expected<Bm25Index> build(const std::vector<Document>& documents, const Bm25Options& options = {});
  /// Builds a file; it appears by rename, complete. @error already_exists, io_error
  static Expected<Bm25Index> build(const std::vector<Document>& documents, const std::filesystem::path& file,
                                   const Bm25Options& options = {});
  /// Opens what build() wrote, read-only; the options are those of the build.
  /// @error not_found    no such file
  /// @error parse_error  not such an index, of another version, cut short or corrupt
  static Expected<Bm25Index> open(const std::filesystem::path& file);

  Bm25Index(Bm25Index&&) noexcept;
  Bm25Index& operator=(Bm25Index&&) noexcept;
  ~Bm25Index();

  /// The `topk` best documents that share a word with `text`, best first, ties in document order; scores set.
  /// Any text is a valid query; one without words finds nothing.
  /// @error invalid_argument  topk < 1
  /// @error parse_error       the index file is corrupt
  Expected<std::vector<Document>> query(std::string_view text, std::int32_t topk) const;
  Expected<std::vector<std::vector<Document>>> query_batch(const std::vector<std::string>& texts,
                                                           std::int32_t topk) const;

  [[nodiscard]] std::int64_t num_documents() const;
  [[nodiscard]] Bm25Counters counters() const;

 private:
  struct State;
  explicit Bm25Index(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace memopd

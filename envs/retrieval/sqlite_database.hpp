// An SQLite connection and its statements with errors as values, and the BM25 ranking function that FTS5 lacks.
#pragma once

#include <sqlite3.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "envs/retrieval/bm25_index.hpp"
#include "runtime/base/expected.hpp"

namespace memopd::detail {

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
};
struct FinishStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, FinishStatement>;

/// @param flags  SQLITE_OPEN_*
/// @error io_error  SQLite's message with `name`
Expected<Database> open_database(const std::string& name, int flags);

/// parse_error when the file is no database or corrupt, otherwise io_error; SQLite's message after `what`.
Unexpected database_error(sqlite3* database, std::string_view what);

Expected<void> execute(sqlite3* database, const std::string& sql);
Expected<Statement> prepare(sqlite3* database, const std::string& sql);
/// The first column of the only row.
Expected<std::string> query_text(sqlite3* database, const std::string& sql);
void bind_text(sqlite3_stmt* statement, int index, std::string_view text);
[[nodiscard]] std::string column_text(sqlite3_stmt* statement, int column);

/// Adds the SQL function memopd_bm25(table) for tables of two columns: title, text. `options` must outlive `database`.
Expected<void> register_ranking(sqlite3* database, const Bm25Options* options);

struct DeleteTokenizer {
  void (*destroy)(Fts5Tokenizer*) = nullptr;
  void operator()(Fts5Tokenizer* tokenizer) const { destroy(tokenizer); }
};

/// Splits text as FTS5's unicode61 tokenizer does in the index. Belongs to one connection. Not thread-safe.
class WordSplitter {
 public:
  static Expected<WordSplitter> create(sqlite3* database);
  /// The distinct words of `text`, folded, in order of first appearance.
  [[nodiscard]] std::vector<std::string> distinct_words(std::string_view text) const;

 private:
  fts5_tokenizer functions_{};
  std::unique_ptr<Fts5Tokenizer, DeleteTokenizer> tokenizer_;
};

/// `text` without apostrophes, as it is indexed and asked for.
[[nodiscard]] std::string without_apostrophes(std::string_view text);

}  // namespace memopd::detail

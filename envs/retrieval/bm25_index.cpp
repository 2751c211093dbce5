#include "envs/retrieval/bm25_index.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "envs/retrieval/sqlite_database.hpp"

namespace memopd {
namespace {

namespace fs = std::filesystem;
using detail::Database;
using detail::Statement;

constexpr std::int32_t kApplicationId = 0x6D6F7031;  // "mop1"
constexpr std::int32_t kFormatVersion = 1;
constexpr std::size_t kMaxCachedQueries = 1 << 16;
/// More distinct words than this are cut: FTS5 limits the size of an expression, and no question needs them.
constexpr std::size_t kMaxQueryWords = 128;

const std::string kSchema = fmt::format(
    "PRAGMA application_id = {}; PRAGMA user_version = {};"
    "CREATE TABLE settings(key TEXT PRIMARY KEY, value TEXT NOT NULL);"
    "CREATE TABLE documents(number INTEGER PRIMARY KEY, id TEXT NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL);"
    "CREATE VIRTUAL TABLE words USING fts5(title, text, content = '', tokenize = 'unicode61 remove_diacritics 2');",
    kApplicationId, kFormatVersion);

struct Ranked {
  std::int64_t number = 0;  ///< of the document, from 1
  double score = 0;
};

Expected<void> check_options(const Bm25Options& options) {
  const bool is_valid = options.k1 >= 0 && options.k1 <= 10 && options.b >= 0 && options.b <= 1 &&
                        options.title_weight >= 0 && options.title_weight <= 100;
  if (!is_valid) {
    return unexpected(ErrorCode::invalid_argument,
                      fmt::format("k1 = {}, b = {}, title_weight = {}: allowed are 0..10, 0..1, 0..100", options.k1,
                                  options.b, options.title_weight));
  }
  return {};
}

Expected<void> insert_documents(sqlite3* database, const std::vector<Document>& documents) {
  auto into_documents = detail::prepare(database, "INSERT INTO documents VALUES(?1, ?2, ?3, ?4)");
  auto into_words = detail::prepare(database, "INSERT INTO words(rowid, title, text) VALUES(?1, ?2, ?3)");
  if (!into_documents || !into_words) {
    return unexpected(!into_documents ? into_documents.error() : into_words.error());
  }
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const auto number = static_cast<sqlite3_int64>(i + 1);
    sqlite3_bind_int64(into_documents->get(), 1, number);
    detail::bind_text(into_documents->get(), 2, documents[i].id);
    detail::bind_text(into_documents->get(), 3, documents[i].title);
    detail::bind_text(into_documents->get(), 4, documents[i].text);
    sqlite3_bind_int64(into_words->get(), 1, number);
    detail::bind_text(into_words->get(), 2, detail::without_apostrophes(documents[i].title));
    detail::bind_text(into_words->get(), 3, detail::without_apostrophes(documents[i].text));
    for (sqlite3_stmt* statement : {into_documents->get(), into_words->get()}) {
      if (sqlite3_step(statement) != SQLITE_DONE) {
        return detail::database_error(database, fmt::format("document {}", documents[i].id));
      }
      sqlite3_reset(statement);
    }
  }
  return {};
}

Expected<void> fill(sqlite3* database, const std::vector<Document>& documents, const Bm25Options& options) {
  if (documents.empty()) {
    return unexpected(ErrorCode::invalid_argument, "an index of no documents");
  }
  MEMOPD_RETURN_IF_ERROR(check_options(options));
  MEMOPD_RETURN_IF_ERROR(detail::execute(database, "BEGIN; " + kSchema));
  MEMOPD_RETURN_IF_ERROR(insert_documents(database, documents));
  return detail::execute(database,
                         fmt::format("INSERT INTO words(words) VALUES('optimize');"
                                     "INSERT INTO settings VALUES('k1', '{}'), ('b', '{}'), ('title_weight', '{}'),"
                                     "('num_documents', '{}'); COMMIT;",
                                     options.k1, options.b, options.title_weight, documents.size()));
}

Expected<double> read_setting(sqlite3* database, const std::string& key) {
  const auto text = detail::query_text(database, "SELECT value FROM settings WHERE key = '" + key + "'");
  if (!text) {
    return unexpected(text.error());
  }
  double value = 0;
  if (std::from_chars(text->data(), text->data() + text->size(), value).ec != std::errc()) {
    return unexpected(ErrorCode::parse_error, fmt::format("setting {} = `{}` is no number", key, *text));
  }
  return value;
}

/// The file is what build() leaves: kind, version, length, structure.
Expected<void> check_file(sqlite3* database, const fs::path& file) {
  struct Check {
    const char* sql;
    std::string allowed;
    const char* what;
  };
  std::error_code failure;
  const auto size_bytes = fs::file_size(file, failure);
  const Check checks[] = {
      {"PRAGMA application_id", std::to_string(kApplicationId), "application id"},
      {"PRAGMA user_version", std::to_string(kFormatVersion), "format version"},
      {"SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", std::to_string(size_bytes), "bytes"},
      {"PRAGMA quick_check(1)", "ok", "structure"},
  };
  for (const Check& check : checks) {
    const auto found = detail::query_text(database, check.sql);
    if (!found) {
      return unexpected(ErrorCode::parse_error, found.error().message);
    }
    if (*found != check.allowed) {
      return unexpected(ErrorCode::parse_error,
                        fmt::format("{} is {}, allowed is {}", check.what, *found, check.allowed));
    }
  }
  return {};
}

}  // namespace

struct Bm25Index::State {
  Bm25Options options;  // the ranking function points here
  Database database;
  detail::WordSplitter splitter;
  Statement rank;
  Statement fetch;
  std::int64_t num_documents = 0;
  mutable std::mutex mutex;
  Bm25Counters counters;
  std::unordered_map<std::string, std::vector<Ranked>> cache;  ///< by topk and words

  /// Prepares what queries need, once the tables exist.
  Expected<void> prepare_queries();
  Expected<std::vector<Ranked>> rank_words(const std::vector<std::string>& words, std::int32_t topk);
  Expected<std::vector<Document>> query(std::string_view text, std::int32_t topk);
};

Expected<void> Bm25Index::State::prepare_queries() {
  MEMOPD_RETURN_IF_ERROR(detail::register_ranking(database.get(), &options));
  auto made = detail::WordSplitter::create(database.get());
  auto rank_statement = detail::prepare(database.get(),
                                        "SELECT rowid, memopd_bm25(words) AS score FROM words WHERE words MATCH ?1 "
                                        "ORDER BY score DESC, rowid LIMIT ?2");
  auto fetch_statement = detail::prepare(database.get(), "SELECT id, title, text FROM documents WHERE number = ?1");
  if (!made || !rank_statement || !fetch_statement) {
    return unexpected(!made ? made.error() : !rank_statement ? rank_statement.error() : fetch_statement.error());
  }
  splitter = std::move(*made);
  rank = std::move(*rank_statement);
  fetch = std::move(*fetch_statement);
  const auto last = detail::query_text(database.get(), "SELECT max(number) FROM documents");
  const auto stated = read_setting(database.get(), "num_documents");
  if (!last || !stated) {
    return unexpected(!last ? last.error() : stated.error());
  }
  num_documents = static_cast<std::int64_t>(*stated);
  if (*last != std::to_string(num_documents)) {
    return unexpected(ErrorCode::parse_error,
                      fmt::format("the last document is {}, allowed is {}", *last, num_documents));
  }
  return {};
}

Expected<std::vector<Ranked>> Bm25Index::State::rank_words(const std::vector<std::string>& words, std::int32_t topk) {
  // Words are runs of letters and digits, so quoting them is enough to keep any text out of FTS5's query language.
  std::string expression;
  for (std::size_t i = 0; i < std::min(words.size(), kMaxQueryWords); ++i) {
    expression += (i == 0 ? "\"" : " OR \"") + words[i] + "\"";
  }
  const std::string key = fmt::format("{} {}", topk, expression);
  ++counters.num_queries;
  if (const auto cached = cache.find(key); cached != cache.end()) {
    ++counters.num_cache_hits;
    return cached->second;
  }
  std::vector<Ranked> ranked;
  if (words.empty()) {
    return ranked;
  }
  detail::bind_text(rank.get(), 1, expression);
  sqlite3_bind_int(rank.get(), 2, topk);
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(rank.get())) == SQLITE_ROW) {
    ranked.push_back({sqlite3_column_int64(rank.get(), 0), sqlite3_column_double(rank.get(), 1)});
  }
  if (code != SQLITE_DONE) {
    const Unexpected failure = detail::database_error(database.get(), "query");
    sqlite3_reset(rank.get());
    return failure;
  }
  sqlite3_reset(rank.get());
  if (cache.size() >= kMaxCachedQueries) {
    cache.clear();
  }
  return cache.emplace(key, std::move(ranked)).first->second;
}

Expected<std::vector<Document>> Bm25Index::State::query(std::string_view text, std::int32_t topk) {
  const auto ranked = rank_words(splitter.distinct_words(detail::without_apostrophes(text)), topk);
  if (!ranked) {
    return unexpected(ranked.error());
  }
  std::vector<Document> documents;
  for (const Ranked& row : *ranked) {
    sqlite3_bind_int64(fetch.get(), 1, row.number);
    const int code = sqlite3_step(fetch.get());
    if (code == SQLITE_ROW) {
      documents.push_back({detail::column_text(fetch.get(), 0), detail::column_text(fetch.get(), 1),
                           detail::column_text(fetch.get(), 2), row.score});
    }
    sqlite3_reset(fetch.get());
    if (code != SQLITE_ROW) {
      return unexpected(ErrorCode::parse_error, fmt::format("document {} is not in the index file", row.number));
    }
  }
  return documents;
}

Bm25Index::Bm25Index(std::unique_ptr<State> state) : state_(std::move(state)) {}
Bm25Index::Bm25Index(Bm25Index&&) noexcept = default;
Bm25Index& Bm25Index::operator=(Bm25Index&&) noexcept = default;
Bm25Index::~Bm25Index() = default;

Expected<Bm25Index> Bm25Index::build(const std::vector<Document>& documents, const Bm25Options& options) {
  auto state = std::make_unique<State>();
  state->options = options;
  auto database = detail::open_database(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX);
  if (!database) {
    return unexpected(database.error());
  }
  state->database = std::move(*database);
  MEMOPD_RETURN_IF_ERROR(fill(state->database.get(), documents, options));
  MEMOPD_RETURN_IF_ERROR(state->prepare_queries());
  return Bm25Index(std::move(state));
}

Expected<Bm25Index> Bm25Index::build(const std::vector<Document>& documents, const fs::path& file,
                                     const Bm25Options& options) {
  std::error_code failure;
  if (fs::exists(file, failure)) {
    return unexpected(ErrorCode::already_exists, fmt::format("index {} exists already", file.string()));
  }
  const fs::path unfinished = fmt::format("{}.unfinished.{}", file.string(), ::getpid());
  fs::remove(unfinished, failure);
  Expected<void> filled;
  {
    auto database =
        detail::open_database(unfinished.string(), SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX);
    if (!database) {
      return unexpected(database.error());
    }
    filled = detail::execute(database->get(), "PRAGMA journal_mode = OFF; PRAGMA synchronous = FULL;");
    filled = filled ? fill(database->get(), documents, options) : filled;
  }
  if (filled) {
    fs::rename(unfinished, file, failure);
    if (failure) {
      filled = unexpected(ErrorCode::io_error, fmt::format("index {}: {}", file.string(), failure.message()));
    }
  }
  if (!filled) {
    fs::remove(unfinished, failure);
    return unexpected(filled.error());
  }
  return open(file);
}

Expected<Bm25Index> Bm25Index::open(const fs::path& file) {
  std::error_code failure;
  if (!fs::is_regular_file(file, failure)) {
    return unexpected(ErrorCode::not_found, fmt::format("index {} does not exist", file.string()));
  }
  auto database = detail::open_database(file.string(), SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX);
  if (!database) {
    return unexpected(database.error());
  }
  const auto refuse = [&](const Error& error) {
    return unexpected(error.code, fmt::format("index {}: {}", file.string(), error.message));
  };
  if (const auto checked = check_file(database->get(), file); !checked) {
    return refuse(checked.error());
  }
  auto state = std::make_unique<State>();
  for (const auto& [key, field] : {std::pair("k1", &state->options.k1), std::pair("b", &state->options.b),
                                   std::pair("title_weight", &state->options.title_weight)}) {
    const auto value = read_setting(database->get(), key);
    if (!value) {
      return refuse(value.error());
    }
    *field = *value;
  }
  if (const auto checked = check_options(state->options); !checked) {
    return refuse({ErrorCode::parse_error, checked.error().message});
  }
  state->database = std::move(*database);
  if (const auto prepared = state->prepare_queries(); !prepared) {
    return refuse(prepared.error());
  }
  return Bm25Index(std::move(state));
}

Expected<std::vector<Document>> Bm25Index::query(std::string_view text, std::int32_t topk) const {
  if (topk < 1) {
    return unexpected(ErrorCode::invalid_argument, fmt::format("topk = {}: allowed is at least 1", topk));
  }
  const std::lock_guard lock(state_->mutex);
  return state_->query(text, topk);
}

Expected<std::vector<std::vector<Document>>> Bm25Index::query_batch(const std::vector<std::string>& texts,
                                                                    std::int32_t topk) const {
  std::vector<std::vector<Document>> results;
  results.reserve(texts.size());
  for (const std::string& text : texts) {
    auto documents = query(text, topk);
    if (!documents) {
      return unexpected(documents.error());
    }
    results.push_back(std::move(*documents));
  }
  return results;
}

std::int64_t Bm25Index::num_documents() const { return state_->num_documents; }

Bm25Counters Bm25Index::counters() const {
  const std::lock_guard lock(state_->mutex);
  return state_->counters;
}

}  // namespace memopd

#include "envs/retrieval/sqlite_database.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

namespace memopd::detail {
namespace {

constexpr const char* kTokenizer = "unicode61";

/// What does not change from row to row of one query.
struct QueryStatistics {
  double mean_length = 1;
  std::vector<double> idf;        ///< by phrase = query word
  std::vector<double> frequency;  ///< scratch, by phrase
};

int count_row(const Fts5ExtensionApi* /*api*/, Fts5Context* /*context*/, void* count) {
  ++*static_cast<sqlite3_int64*>(count);
  return SQLITE_OK;
}

int make_statistics(const Fts5ExtensionApi* api, Fts5Context* context, double title_weight,
                    std::unique_ptr<QueryStatistics>& made) {
  made = std::make_unique<QueryStatistics>();
  sqlite3_int64 num_rows = 0;
  sqlite3_int64 title_total = 0;
  sqlite3_int64 text_total = 0;
  int code = api->xRowCount(context, &num_rows);
  code = code != SQLITE_OK ? code : api->xColumnTotalSize(context, 0, &title_total);
  code = code != SQLITE_OK ? code : api->xColumnTotalSize(context, 1, &text_total);
  const double rows = static_cast<double>(std::max<sqlite3_int64>(num_rows, 1));
  made->mean_length =
      std::max((static_cast<double>(text_total) + title_weight * static_cast<double>(title_total)) / rows, 1e-9);
  for (int phrase = 0; code == SQLITE_OK && phrase < api->xPhraseCount(context); ++phrase) {
    sqlite3_int64 num_matches = 0;
    code = api->xQueryPhrase(context, phrase, &num_matches, count_row);
    const double matches = static_cast<double>(num_matches);
    made->idf.push_back(std::log(1 + (rows - matches + 0.5) / (matches + 0.5)));
  }
  made->frequency.resize(made->idf.size());
  return code;
}

int rank_row(const Fts5ExtensionApi* api, Fts5Context* context, const Bm25Options& options, double& score) {
  auto* statistics = static_cast<QueryStatistics*>(api->xGetAuxdata(context, 0));
  if (statistics == nullptr) {
    std::unique_ptr<QueryStatistics> made;
    if (const int code = make_statistics(api, context, options.title_weight, made); code != SQLITE_OK) {
      return code;
    }
    statistics = made.release();
    const auto destroy = [](void* pointer) { delete static_cast<QueryStatistics*>(pointer); };
    if (const int code = api->xSetAuxdata(context, statistics, destroy); code != SQLITE_OK) {
      return code;  // SQLite has destroyed it
    }
  }
  int title_length = 0;
  int text_length = 0;
  int num_instances = 0;
  int code = api->xColumnSize(context, 0, &title_length);
  code = code != SQLITE_OK ? code : api->xColumnSize(context, 1, &text_length);
  code = code != SQLITE_OK ? code : api->xInstCount(context, &num_instances);
  std::fill(statistics->frequency.begin(), statistics->frequency.end(), 0.0);
  for (int i = 0; code == SQLITE_OK && i < num_instances; ++i) {
    int phrase = 0;
    int column = 0;
    int offset = 0;
    code = api->xInst(context, i, &phrase, &column, &offset);
    statistics->frequency[static_cast<std::size_t>(phrase)] += column == 0 ? options.title_weight : 1.0;
  }
  const double length = text_length + options.title_weight * title_length;
  const double saturation = options.k1 * (1 - options.b + options.b * length / statistics->mean_length);
  score = 0;
  for (std::size_t phrase = 0; phrase < statistics->idf.size(); ++phrase) {
    const double frequency = statistics->frequency[phrase];
    if (frequency > 0) {
      score += statistics->idf[phrase] * frequency * (options.k1 + 1) / (frequency + saturation);
    }
  }
  return code;
}

void ranking_function(const Fts5ExtensionApi* api, Fts5Context* context, sqlite3_context* result, int /*num_arguments*/,
                      sqlite3_value** /*arguments*/) {
  double score = 0;
  const int code = rank_row(api, context, *static_cast<const Bm25Options*>(api->xUserData(context)), score);
  if (code == SQLITE_OK) {
    sqlite3_result_double(result, score);
  } else {
    sqlite3_result_error_code(result, code);
  }
}

Expected<fts5_api*> find_fts5(sqlite3* database) {
  auto statement = prepare(database, "SELECT fts5(?1)");
  if (!statement) {
    return unexpected(ErrorCode::unsupported, "this build of SQLite has no FTS5: " + statement.error().message);
  }
  fts5_api* api = nullptr;
  sqlite3_bind_pointer(statement->get(), 1, static_cast<void*>(&api), "fts5_api_ptr", nullptr);
  sqlite3_step(statement->get());
  if (api == nullptr || api->iVersion < 2) {
    return unexpected(ErrorCode::unsupported, "this build of SQLite has no FTS5 of version 2 or later");
  }
  return api;
}

}  // namespace

Expected<Database> open_database(const std::string& name, int flags) {
  sqlite3* opened = nullptr;
  const int code = sqlite3_open_v2(name.c_str(), &opened, flags, nullptr);
  Database database(opened);
  if (code != SQLITE_OK) {
    return unexpected(ErrorCode::io_error, fmt::format("{}: {}", name, opened ? sqlite3_errmsg(opened) : "no memory"));
  }
  return database;
}

Unexpected database_error(sqlite3* database, std::string_view what) {
  const int code = sqlite3_errcode(database);
  const bool is_corrupt = (code & 0xFF) == SQLITE_CORRUPT || (code & 0xFF) == SQLITE_NOTADB;
  return unexpected(is_corrupt ? ErrorCode::parse_error : ErrorCode::io_error,
                    fmt::format("{}: {}", what, sqlite3_errmsg(database)));
}

Expected<Statement> prepare(sqlite3* database, const std::string& sql) {
  sqlite3_stmt* prepared = nullptr;
  const int code = sqlite3_prepare_v2(database, sql.c_str(), static_cast<int>(sql.size()), &prepared, nullptr);
  Statement statement(prepared);
  if (code != SQLITE_OK) {
    return database_error(database, "index");
  }
  return statement;
}

Expected<void> execute(sqlite3* database, const std::string& sql) {
  if (sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return database_error(database, "index");
  }
  return {};
}

Expected<std::string> query_text(sqlite3* database, const std::string& sql) {
  auto statement = prepare(database, sql);
  if (!statement) {
    return unexpected(statement.error());
  }
  if (sqlite3_step(statement->get()) != SQLITE_ROW) {
    return database_error(database, "index");
  }
  return column_text(statement->get(), 0);
}

void bind_text(sqlite3_stmt* statement, int index, std::string_view text) {
  sqlite3_bind_text64(statement, index, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}

std::string column_text(sqlite3_stmt* statement, int column) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
  return text == nullptr ? std::string()
                         : std::string(text, static_cast<std::size_t>(sqlite3_column_bytes(statement, column)));
}

Expected<void> register_ranking(sqlite3* database, const Bm25Options* options) {
  const auto api = find_fts5(database);
  if (!api) {
    return unexpected(api.error());
  }
  // SQLite hands the pointer back as it is; the function only reads through it.
  void* user_data = const_cast<Bm25Options*>(options);
  if ((*api)->xCreateFunction(*api, "memopd_bm25", user_data, ranking_function, nullptr) != SQLITE_OK) {
    return database_error(database, "index");
  }
  return {};
}

Expected<WordSplitter> WordSplitter::create(sqlite3* database) {
  const auto api = find_fts5(database);
  if (!api) {
    return unexpected(api.error());
  }
  WordSplitter splitter;
  void* user_data = nullptr;
  Fts5Tokenizer* tokenizer = nullptr;
  const char* arguments[] = {"remove_diacritics", "2"};
  if ((*api)->xFindTokenizer(*api, kTokenizer, &user_data, &splitter.functions_) != SQLITE_OK ||
      splitter.functions_.xCreate(user_data, arguments, 2, &tokenizer) != SQLITE_OK) {
    return database_error(database, "index");
  }
  splitter.tokenizer_ = std::unique_ptr<Fts5Tokenizer, DeleteTokenizer>(tokenizer, {splitter.functions_.xDelete});
  return splitter;
}

std::vector<std::string> WordSplitter::distinct_words(std::string_view text) const {
  struct Collected {
    std::vector<std::string> words;
    std::unordered_set<std::string> seen;
  } collected;
  const auto collect = [](void* context, int /*flags*/, const char* word, int size, int /*begin*/, int /*end*/) {
    auto* into = static_cast<Collected*>(context);
    if (into->seen.emplace(word, static_cast<std::size_t>(size)).second) {
      into->words.emplace_back(word, static_cast<std::size_t>(size));
    }
    return SQLITE_OK;
  };
  functions_.xTokenize(tokenizer_.get(), &collected, FTS5_TOKENIZE_QUERY, text.data(), static_cast<int>(text.size()),
                       collect);
  return std::move(collected.words);
}

std::string without_apostrophes(std::string_view text) {
  constexpr std::string_view kTypographic = "\xE2\x80\x99";
  std::string kept;
  kept.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, kTypographic.size()) == kTypographic) {
      i += kTypographic.size() - 1;
    } else if (text[i] != '\'') {
      kept += text[i];
    }
  }
  return kept;
}

}  // namespace memopd::detail

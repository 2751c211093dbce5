#include "tools/bench/tokenizer_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "policies/text/tokenizer.hpp"
#include "runtime/base/random.hpp"
#include "runtime/text/unicode.hpp"
#include "tools/bench/peer_command.hpp"

namespace memopd {
namespace {

using nlohmann::json;
using Documents = std::vector<std::string>;

constexpr std::size_t kDocumentBytes = 2000;
constexpr double kMegabyte = 1e6;

/// Documents of whole lines, of kDocumentBytes or a little more, until `max_bytes` are there.
void cut_documents(const std::string& text, std::int64_t max_bytes, Documents& documents) {
  std::int64_t total = 0;
  for (const std::string& document : documents) {
    total += static_cast<std::int64_t>(document.size());
  }
  for (std::size_t begin = 0; begin < text.size() && total < max_bytes;) {
    const std::size_t newline = text.find('\n', std::min(begin + kDocumentBytes, text.size()));
    const std::size_t end = newline == std::string::npos ? text.size() : newline + 1;
    documents.push_back(text.substr(begin, end - begin));
    total += static_cast<std::int64_t>(end - begin);
    begin = end;
  }
}

/// Files below `source` with one of `extensions`, by name, without hidden and built folders.
Documents read_documents(const std::filesystem::path& source, const std::vector<std::string>& extensions,
                         std::int64_t max_bytes) {
  std::vector<std::filesystem::path> paths;
  std::error_code ignored;
  for (auto entry = std::filesystem::recursive_directory_iterator(source, ignored);
       entry != std::filesystem::recursive_directory_iterator(); entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    if (entry->is_directory(ignored) && (name.starts_with(".") || name == "build" || name == "runs")) {
      entry.disable_recursion_pending();
    } else if (std::find(extensions.begin(), extensions.end(), entry->path().extension()) != extensions.end()) {
      paths.push_back(entry->path());
    }
  }
  std::sort(paths.begin(), paths.end());
  Documents documents;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    cut_documents(replace_invalid_utf8(text), max_bytes, documents);
  }
  return documents;
}

std::string utf8(std::uint32_t c) {
  const auto tail = [c](unsigned shift) { return static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  return c < 0x800 ? std::string{static_cast<char>(0xC0 | (c >> 6)), tail(0)}
                   : std::string{static_cast<char>(0xE0 | (c >> 12)), tail(6), tail(0)};
}

/// Words of 2 to 8 letters of ten scripts; a few of them often, most of them seldom, as words of a language are.
Documents unicode_documents(std::uint64_t seed, std::int64_t max_bytes) {
  constexpr std::pair<std::uint32_t, std::uint32_t> kLetters[] = {
      {0xE0, 0xF6},   {0x3B1, 0x3C9}, {0x430, 0x44F},   {0x5D0, 0x5EA},   {0x627, 0x64A},
      {0x905, 0x939}, {0xE01, 0xE2E}, {0x3041, 0x3096}, {0x4E00, 0x9FA5}, {0xAC00, 0xD7A3}};
  SplitMix random(seed);
  std::vector<std::string> words(20000);
  for (std::string& word : words) {
    const auto [first, last] = kLetters[random.below(std::size(kLetters))];
    for (std::uint64_t left = 2 + random.below(7); left > 0; --left) {
      word += utf8(first + static_cast<std::uint32_t>(random.below(last - first + 1)));
    }
  }
  std::string text;
  while (static_cast<std::int64_t>(text.size()) < max_bytes) {
    const double skewed = random.uniform() * random.uniform() * random.uniform();
    text += words[static_cast<std::size_t>(skewed * static_cast<double>(words.size()))];
    text += random.below(12) == 0 ? ".\n" : " ";
  }
  Documents documents;
  cut_documents(text, max_bytes, documents);
  return documents;
}

/// What one side made of the documents.
struct Side {
  double seconds = std::numeric_limits<double>::infinity();  // of the fastest repetition
  std::int64_t num_ids = 0;
  std::uint64_t hash = 0;  // FNV-1a over all ids
  std::string name;
};

void measure_ours(const Tokenizer& tokenizer, const Documents& documents, Side& ours) {
  std::vector<std::vector<std::int32_t>> encoded(documents.size());
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < documents.size(); ++i) {
    encoded[i] = tokenizer.encode(documents[i], {.special_tokens = true});
  }
  ours.seconds =
      std::min(ours.seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  ours.num_ids = 0;
  ours.hash = 0xCBF29CE484222325ULL;
  for (const auto& ids : encoded) {
    ours.num_ids += static_cast<std::int64_t>(ids.size());
    for (const std::int32_t id : ids) {
      ours.hash = (ours.hash ^ static_cast<std::uint32_t>(id)) * 0x100000001B3ULL;
    }
  }
}

/// One start of the peer, into `peer`; its second round finds its cache of words warm.
Expected<void> measure_peer(const TokenizerBenchOptions& options, const std::filesystem::path& tokenizer_json,
                            const std::filesystem::path& documents, Side& peer) {
  const std::filesystem::path script = options.source / "tools" / "bench" / "tokenizer_peer.py";
  const auto output = run_command(quoted(options.peer_python) + " " + quoted(script) + " " + quoted(tokenizer_json) +
                                  " " + quoted(documents) + " 2");
  if (!output) {
    return unexpected(output.error());
  }
  const json result = json::parse(*output, nullptr, /*allow_exceptions=*/false);
  if (!result.is_object() || !result.contains("calls") || !result.contains("hash") || !result.contains("num_ids")) {
    return unexpected(ErrorCode::io_error, script.string() + ": printed something else than its JSON");
  }
  for (const auto& [call, seconds] : result["calls"].items()) {
    if (seconds.get<double>() < peer.seconds) {
      peer.seconds = seconds.get<double>();
      peer.name = "tokenizers " + result.value("version", "") + " " + call;
    }
  }
  peer.num_ids = result["num_ids"].get<std::int64_t>();
  peer.hash = std::stoull(result["hash"].get<std::string>(), nullptr, 16);
  return {};
}

/// The documents as a file for the peer, gone with this object.
class DocumentFile {
 public:
  DocumentFile(const Documents& documents, std::uint64_t seed)
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("memopd_bench_{:x}.json",
                          chain_seed(seed, {static_cast<std::uint64_t>(
                                               std::chrono::steady_clock::now().time_since_epoch().count())}))) {
    std::ofstream(path_, std::ios::binary) << json(documents).dump();
  }
  DocumentFile(const DocumentFile&) = delete;
  DocumentFile& operator=(const DocumentFile&) = delete;
  ~DocumentFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

Expected<TokenizerBenchRow> bench_text(const TokenizerBenchOptions& options, const Tokenizer& tokenizer,
                                       const std::filesystem::path& tokenizer_json, const std::string& name,
                                       const Documents& documents) {
  TokenizerBenchRow row;
  row.text = name;
  for (const std::string& document : documents) {
    row.size_bytes += static_cast<std::int64_t>(document.size());
  }
  std::error_code ignored;
  const bool has_peer = std::filesystem::exists(options.peer_python, ignored);
  const DocumentFile file(documents, options.seed);
  Side ours;
  Side peer;
  for (std::int32_t repetition = 0; repetition < options.num_repetitions; ++repetition) {
    measure_ours(tokenizer, documents, ours);
    if (has_peer) {
      MEMOPD_RETURN_IF_ERROR(measure_peer(options, tokenizer_json, file.path(), peer));
    }
  }
  const double megabytes = static_cast<double>(row.size_bytes) / kMegabyte;
  row.num_ids = ours.num_ids;
  row.ours_mb_s = megabytes / ours.seconds;
  row.peer_mb_s = has_peer ? megabytes / peer.seconds : 0;
  row.peer = has_peer ? peer.name : "absent: tools/bench/peers installs it";
  row.ids_are_equal = has_peer && peer.num_ids == ours.num_ids && peer.hash == ours.hash;
  return row;
}

}  // namespace

Expected<std::vector<TokenizerBenchRow>> bench_tokenizer(const TokenizerBenchOptions& options) {
  if (options.num_repetitions < 1 || options.max_bytes < static_cast<std::int64_t>(kDocumentBytes)) {
    return unexpected(ErrorCode::invalid_argument,
                      fmt::format("bench tokenizer: {} repetitions of {} bytes, allowed from 1 and from {}",
                                  options.num_repetitions, options.max_bytes, kDocumentBytes));
  }
  std::error_code ignored;
  const auto tokenizer_json = std::filesystem::is_directory(options.tokenizer, ignored)
                                  ? options.tokenizer / "tokenizer.json"
                                  : options.tokenizer;
  const auto tokenizer = Tokenizer::load(tokenizer_json);
  if (!tokenizer) {
    return unexpected(tokenizer.error());
  }
  const std::pair<std::string, Documents> texts[] = {
      {"prose", read_documents(options.source, {".md"}, options.max_bytes)},
      {"code", read_documents(options.source, {".cpp", ".hpp", ".py"}, options.max_bytes)},
      {"unicode", unicode_documents(options.seed, options.max_bytes)}};
  std::vector<TokenizerBenchRow> rows;
  for (const auto& [name, documents] : texts) {
    if (documents.empty()) {
      return unexpected(ErrorCode::invalid_argument,
                        options.source.string() + ": no files for the text " + name + ", expected the source tree");
    }
    auto row = bench_text(options, *tokenizer, tokenizer_json, name, documents);
    if (!row) {
      return unexpected(row.error());
    }
    rows.push_back(std::move(*row));
  }
  return rows;
}

std::string to_json(const std::vector<TokenizerBenchRow>& rows) {
  auto array = nlohmann::ordered_json::array();
  for (const TokenizerBenchRow& row : rows) {
    array.push_back({{"text", row.text},
                     {"size_bytes", row.size_bytes},
                     {"num_ids", row.num_ids},
                     {"ours_mb_s", row.ours_mb_s},
                     {"peer_mb_s", row.peer_mb_s},
                     {"ratio", row.ratio()},
                     {"ids_are_equal", row.ids_are_equal},
                     {"peer", row.peer}});
  }
  return array.dump(2);
}

std::string to_table(const std::vector<TokenizerBenchRow>& rows) {
  std::string text = "text         bytes       ids   ours MB/s   peer MB/s   ratio\n";
  for (const TokenizerBenchRow& row : rows) {
    text += fmt::format("{:<8} {:>9} {:>9} {:>11.1f} {:>11.1f} {:>7.2f}  {}\n", row.text, row.size_bytes, row.num_ids,
                        row.ours_mb_s, row.peer_mb_s, row.ratio(),
                        row.peer_mb_s > 0 && !row.ids_are_equal ? row.peer + ", other ids" : row.peer);
  }
  return text;
}

}  // namespace memopd

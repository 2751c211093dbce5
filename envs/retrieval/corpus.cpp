#include "envs/retrieval/corpus.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "runtime/text/unicode.hpp"

namespace memopd {
namespace {

using Json = nlohmann::json;

Unexpected wrong(const std::string& place, std::string_view problem) {
  return unexpected(
      ErrorCode::parse_error,
      fmt::format("{}: {}, allowed is {{\"id\": \"..\", \"contents\": \"\\\"Title\\\"\\ntext\"}}", place, problem));
}

Expected<Document> parse_line(std::string_view line, const std::string& place) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object()) {
    return wrong(place, object.is_discarded() ? "no JSON" : "JSON, but no object");
  }
  for (const char* key : {"id", "contents"}) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_string()) {
      return wrong(place, fmt::format("`{}` is {}", key, found == object.end() ? "missing" : found->type_name()));
    }
  }
  return parse_contents(object.at("id").get<std::string>(), object.at("contents").get_ref<const std::string&>(), place);
}

}  // namespace

Expected<Document> parse_contents(std::string id, std::string_view contents, const std::string& place) {
  const std::size_t line_end = contents.find('\n');
  if (line_end == std::string_view::npos || strip(contents.substr(line_end)).empty()) {
    return wrong(place, "`contents` has no text after its first line");
  }
  const std::string_view title = strip(contents.substr(0, line_end));
  if (title.size() < 2 || title.front() != '"' || title.back() != '"') {
    return wrong(place, fmt::format("the first line of `contents` is `{}`, no title in quotes", title));
  }
  Document document;
  document.id = std::move(id);
  document.title = std::string(title.substr(1, title.size() - 2));
  document.text = std::string(contents.substr(line_end + 1));
  return document;
}

std::string document_contents(const Document& document) {
  return fmt::format("\"{}\"\n{}", document.title, document.text);
}

Expected<std::vector<Document>> load_corpus(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream || std::filesystem::is_directory(file)) {
    return unexpected(ErrorCode::not_found, fmt::format("corpus {} cannot be read", file.string()));
  }
  std::vector<Document> documents;
  std::unordered_set<std::string> ids;
  std::string line;
  for (std::size_t number = 1; std::getline(stream, line); ++number) {
    const std::string place = fmt::format("{}:{}", file.string(), number);
    auto document = parse_line(line, place);
    if (!document) {
      return unexpected(document.error());
    }
    if (!ids.insert(document->id).second) {
      return wrong(place, fmt::format("id `{}` stands on an earlier line too", document->id));
    }
    documents.push_back(std::move(*document));
  }
  if (documents.empty()) {
    return wrong(file.string(), "no document");
  }
  return documents;
}

Expected<void> save_corpus(const std::filesystem::path& file, const std::vector<Document>& documents) {
  std::ofstream stream(file, std::ios::trunc);
  for (const Document& document : documents) {
    const Json object = {{"id", document.id}, {"contents", document_contents(document)}};
    stream << object.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
  }
  stream.close();
  if (!stream) {
    return unexpected(ErrorCode::io_error, fmt::format("corpus {} cannot be written", file.string()));
  }
  return {};
}

}  // namespace memopd

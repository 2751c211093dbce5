// Documents for a retriever: JSONL lines {"id": "..", "contents": "\"Title\"\ntext"}.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/data/task.hpp"

namespace memopd {

/// Every document, in file order.
/// @error not_found    no such file
/// @error parse_error  empty file; a line that is no such object; an id twice: names file:line, found, allowed
Expected<std::vector<Document>> load_corpus(const std::filesystem::path& file);

/// The first line of `contents` is the title, in quotes; the rest the text. `place` starts every message.
/// @error parse_error  no quoted first line, or nothing after it
Expected<Document> parse_contents(std::string id, std::string_view contents, const std::string& place);

/// The inverse: `"Title"\ntext`.
[[nodiscard]] std::string document_contents(const Document& document);

/// @error io_error  the file cannot be written
Expected<void> save_corpus(const std::filesystem::path& file, const std::vector<Document>& documents);

}  // namespace memopd

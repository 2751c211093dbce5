// Whether the files of a folder are those that were written: a crash can leave the right length with other bytes.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "runtime/base/expected.hpp"

namespace memopd {

/// XXH3-64 in hexadecimal by path relative to the folder.
using FileHashes = std::map<std::string, std::string>;

/// Of every file under `folder`. O(bytes). @error io_error
Expected<FileHashes> hash_files(const std::filesystem::path& folder);

/// @error not_found    a file of `expected` that is not there
/// @error parse_error  one with other bytes; names it
/// Files that `expected` does not name are not looked at.
Expected<void> check_files(const std::filesystem::path& folder, const FileHashes& expected);

}  // namespace memopd

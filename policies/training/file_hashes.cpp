#include "policies/training/file_hashes.hpp"

#include <xxhash.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <vector>

namespace memopd {
namespace {

namespace fs = std::filesystem;

Expected<std::string> hash_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return unexpected(ErrorCode::not_found, path.string() + ": cannot be opened");
  }
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::vector<char> buffer(std::size_t{1} << 20);
  while (file) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    XXH3_64bits_update(state.get(), buffer.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof()) {
    return unexpected(ErrorCode::io_error, path.string() + ": cannot be read");
  }
  std::string text(17, '\0');
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(XXH3_64bits_digest(state.get())));
  text.pop_back();
  return text;
}

}  // namespace

Expected<FileHashes> hash_files(const fs::path& folder) try {
  FileHashes hashes;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      Expected<std::string> hash = hash_file(entry.path());
      if (!hash) {
        return unexpected(hash.error());
      }
      hashes[fs::relative(entry.path(), folder).generic_string()] = std::move(*hash);
    }
  }
  return hashes;
} catch (const std::exception& exception) {
  return unexpected(ErrorCode::io_error, folder.string() + ": " + exception.what());
}

Expected<void> check_files(const fs::path& folder, const FileHashes& expected) {
  for (const auto& [name, hash] : expected) {
    const Expected<std::string> found = hash_file(folder / name);
    if (!found) {
      return unexpected(found.error());
    }
    if (*found != hash) {
      return unexpected(ErrorCode::parse_error,
                        (folder / name).string() + ": its hash is " + *found + ", that of what was written is " + hash);
    }
  }
  return {};
}

}  // namespace memopd

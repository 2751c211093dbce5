// Folders and files that tests write byte by byte. Torch-free.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace memopd::testing {

/// A folder of its own below the system's temporary one, removed at the end.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("memopd_" + name + "_" + std::to_string(::getpid()) + "_" + std::to_string(next_number()++))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  static int& next_number() {
    static int number = 0;
    return number;
  }

  std::filesystem::path path_;
};

inline void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// A safetensors file with this header text and so many zero bytes behind it.
inline void file_with_header(const std::filesystem::path& path, const std::string& header, std::size_t data_bytes) {
  std::uint64_t length = header.size();
  std::string bytes(sizeof(length), '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(length & 0xFF);
    length >>= 8;
  }
  write_file(path, bytes + header + std::string(data_bytes, '\0'));
}

}  // namespace memopd::testing

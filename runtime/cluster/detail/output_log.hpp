// The lines a child prints: in a file with the time of each, and the last ones in memory.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/cluster/detail/file_descriptor.hpp"

namespace memopd::detail {

/// Not thread-safe.
class OutputLog {
 public:
  static constexpr std::size_t kLinesInMemory = 20;
  static constexpr std::size_t kMaxLineBytes = 64 * 1024;  ///< a longer line is broken here

  /// @param path  appended to, its folder is made; empty: no file
  /// @error io_error  it cannot be opened
  [[nodiscard]] static Expected<OutputLog> open(const std::filesystem::path& path);

  /// Bytes as they came from the pipe; whole lines are written at once, the rest with what follows.
  void append(std::string_view bytes);
  /// Writes a last line that has no end.
  void finish();
  [[nodiscard]] std::vector<std::string> last_lines() const { return {last_lines_.begin(), last_lines_.end()}; }

 private:
  OutputLog(std::filesystem::path path, FileDescriptor file) : path_(std::move(path)), file_(std::move(file)) {}
  void take_line(std::string_view line, std::string& block);
  void write(std::string_view block);

  std::filesystem::path path_;
  FileDescriptor file_;
  std::string partial_;
  std::deque<std::string> last_lines_;
  bool has_failed_ = false;
};

}  // namespace memopd::detail

// One append-only file. Internal to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "runtime/base/expected.hpp"

namespace memopd::detail {

/// Not thread-safe. After a failed append the file may end in part of a record.
class SegmentFile {
 public:
  /// Makes a file that must not exist, and its name durable.
  /// @error already_exists, io_error
  [[nodiscard]] static Expected<std::unique_ptr<SegmentFile>> create(const std::filesystem::path& path);
  ~SegmentFile();
  SegmentFile(const SegmentFile&) = delete;
  SegmentFile& operator=(const SegmentFile&) = delete;

  /// Hands all of `bytes` to the operating system.
  Expected<void> append(std::span<const std::byte> bytes);
  /// What was appended is on disk.
  Expected<void> sync();

 private:
  SegmentFile(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::filesystem::path path_;
  int descriptor_;
};

}  // namespace memopd::detail

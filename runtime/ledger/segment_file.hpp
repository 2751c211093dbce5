// The segments of a ledger as files. Internal to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd::detail {

/// Numbers of the segments in `folder`, ascending. The first need not be 0: older ones may have been pruned.
/// @error not_found    none
/// @error parse_error  one is missing between two others
[[nodiscard]] Expected<std::vector<std::int32_t>> segment_numbers(const std::filesystem::path& folder);

/// Cuts a segment that no one writes to down to `size_bytes`, durably; removes it when that is 0.
/// @error io_error
Expected<void> cut_segment(const std::filesystem::path& path, std::int64_t size_bytes);

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

#include "runtime/ledger/segment_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "runtime/ledger/record_format.hpp"

namespace memopd::detail {
namespace {

Unexpected io_failure(const std::filesystem::path& path) {
  return unexpected(errno == EEXIST ? ErrorCode::already_exists : ErrorCode::io_error,
                    fmt::format("ledger {}: {}", path.string(), std::strerror(errno)));
}

/// A new file's name is durable only once its folder is.
bool sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    return false;
  }
  const bool is_synced = ::fsync(descriptor) == 0;
  ::close(descriptor);
  return is_synced;
}

}  // namespace

Expected<std::vector<std::int32_t>> segment_numbers(const std::filesystem::path& folder) {
  std::vector<std::int32_t> numbers;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    int number = 0;
    const std::string name = entry.path().filename().string();
    if (std::sscanf(name.c_str(), "segment-%6d.ledger", &number) == 1 && name == segment_name(number)) {
      numbers.push_back(number);
    }
  }
  if (error || numbers.empty()) {
    return unexpected(ErrorCode::not_found, fmt::format("ledger {}: no segment there", folder.string()));
  }
  std::sort(numbers.begin(), numbers.end());
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    if (numbers[i] != numbers[i - 1] + 1) {
      return unexpected(ErrorCode::parse_error,
                        fmt::format("ledger {}: {} is missing", folder.string(), segment_name(numbers[i - 1] + 1)));
    }
  }
  return numbers;
}

Expected<void> cut_segment(const std::filesystem::path& path, std::int64_t size_bytes) {
  if (size_bytes == 0) {
    return ::unlink(path.c_str()) == 0 && sync_folder(path.parent_path()) ? Expected<void>() : io_failure(path);
  }
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return io_failure(path);
  }
  const bool is_cut = ::ftruncate(descriptor, size_bytes) == 0 && ::fsync(descriptor) == 0;
  const Expected<void> result = is_cut ? Expected<void>() : io_failure(path);
  ::close(descriptor);
  return result;
}

Expected<std::unique_ptr<SegmentFile>> SegmentFile::create(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    return io_failure(path);
  }
  std::unique_ptr<SegmentFile> file(new SegmentFile(path, descriptor));
  if (!sync_folder(path.parent_path())) {
    return io_failure(path.parent_path());
  }
  return file;
}

SegmentFile::~SegmentFile() { ::close(descriptor_); }

Expected<void> SegmentFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return io_failure(path_);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Expected<void> SegmentFile::sync() { return ::fsync(descriptor_) == 0 ? Expected<void>() : io_failure(path_); }

}  // namespace memopd::detail

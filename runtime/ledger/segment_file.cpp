#include "runtime/ledger/segment_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

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

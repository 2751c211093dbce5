#include "runtime/cluster/staging.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "runtime/cluster/detail/file_descriptor.hpp"
#include "runtime/wire/frame.hpp"

namespace memopd {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxOfferBytes = kMaxControlFrameBytes - 4096;  ///< the frame has a header, too

Error failed_with(const fs::path& path, const char* what, int number) {
  return {ErrorCode::io_error, path.string() + ": " + what + ": " + std::strerror(number)};
}

/// A mapped file, for as long as somebody holds it.
struct MappedFile {
  std::byte* data = nullptr;
  std::size_t size = 0;

  MappedFile() = default;
  ~MappedFile() {
    if (data != nullptr) {
      ::munmap(data, size);
    }
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  [[nodiscard]] std::span<std::byte> bytes() const { return {data, size}; }
};

/// @param protection  PROT_READ, or PROT_READ | PROT_WRITE of a file that has its size already
Expected<std::shared_ptr<MappedFile>> map_file(const fs::path& path, int fd, std::size_t size, int protection) {
  auto mapped = std::make_shared<MappedFile>();
  void* const address = ::mmap(nullptr, size, protection, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) {
    return unexpected(failed_with(path, "map", errno));
  }
  mapped->data = static_cast<std::byte*>(address);
  mapped->size = size;
  return mapped;
}

fs::path partial_of(const fs::path& path) { return path.string() + ".partial"; }

Expected<StagedFile> offer_file(const fs::path& path, Bulk& bulk) {
  const detail::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.get(), &status) != 0) {
    return unexpected(failed_with(path, "read", errno));
  }
  StagedFile staged{
      path.string(), static_cast<std::int32_t>(status.st_mode & 0777U), static_cast<std::uint64_t>(status.st_size), {}};
  if (status.st_size > 0) {
    auto mapped = map_file(path, file.get(), static_cast<std::size_t>(status.st_size), PROT_READ);
    MEMOPD_RETURN_IF_ERROR(mapped);
    staged.ticket = bulk.publish({*mapped, (*mapped)->bytes()});
  }
  return staged;
}

Expected<void> fetch_file(const StagedFile& file, const fs::path& path, Bulk& bulk) {
  const detail::FileDescriptor partial(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  // posix_fallocate, so that a full disk is an error here and not a signal while the mapping is written.
  const auto size = static_cast<off_t>(file.size_bytes);
  const int number = !partial.is_open() ? errno : size > 0 ? ::posix_fallocate(partial.get(), 0, size) : 0;
  if (number != 0) {
    return unexpected(failed_with(path, "write", number));
  }
  if (size == 0) {
    return {};
  }
  auto mapped = map_file(path, partial.get(), file.size_bytes, PROT_READ | PROT_WRITE);
  MEMOPD_RETURN_IF_ERROR(mapped);
  const auto done = std::make_shared<std::promise<Expected<void>>>();
  bulk.fetch(file.ticket, {*mapped, (*mapped)->bytes()},
             [done](Expected<void> fetched) { done->set_value(std::move(fetched)); });
  const Expected<void> fetched = done->get_future().get();
  return fetched ? fetched
                 : Expected<void>(
                       unexpected(fetched.error().code, "input file " + file.path + ": " + fetched.error().message));
}

/// A relative path that stays below its folder.
bool stays_below(const fs::path& path) {
  const fs::path normal = path.lexically_normal();
  return !normal.empty() && normal.is_relative() && *normal.begin() != "..";
}

}  // namespace

Expected<std::vector<fs::path>> list_inputs(std::span<const std::string> inputs) {
  std::set<fs::path> files;
  for (const std::string& input : inputs) {
    if (!stays_below(input)) {
      return unexpected(ErrorCode::invalid_argument,
                        input + " is not below the working directory: only what is can be given to other hosts");
    }
    std::error_code failed;
    const fs::path root = fs::path(input).lexically_normal();
    if (fs::is_regular_file(root, failed)) {
      files.insert(root);
      continue;
    }
    fs::recursive_directory_iterator entries(root, fs::directory_options::follow_directory_symlink, failed);
    if (failed) {
      return unexpected(ErrorCode::not_found, input + ": " + failed.message());
    }
    for (const auto& entry : entries) {
      if (entry.is_regular_file(failed)) {
        files.insert(entry.path());
      }
    }
  }
  if (files.size() > kMaxStagedFiles) {
    return unexpected(ErrorCode::overloaded, std::to_string(files.size()) + " input files, at most " +
                                                 std::to_string(kMaxStagedFiles) + " can be given to other hosts");
  }
  return std::vector<fs::path>(files.begin(), files.end());
}

Expected<StageFiles> offer_files(std::span<const fs::path> files, Bulk& bulk) {
  StageFiles offered;
  for (const fs::path& path : files) {
    auto staged = offer_file(path, bulk);
    MEMOPD_RETURN_IF_ERROR(staged);
    offered.files.push_back(*std::move(staged));
  }
  if (const std::size_t size = encode(offered).size(); size > kMaxOfferBytes) {
    return unexpected(ErrorCode::overloaded, "the names and tickets of " + std::to_string(files.size()) +
                                                 " input files take " + std::to_string(size) + " bytes, at most " +
                                                 std::to_string(kMaxOfferBytes) + " can be sent");
  }
  return offered;
}

Expected<void> fetch_files(const StageFiles& request, const fs::path& folder, Bulk& bulk) {
  for (const StagedFile& file : request.files) {
    if (!stays_below(file.path)) {
      return unexpected(ErrorCode::refused, "input file " + file.path + " would lie outside the work folder");
    }
    const fs::path target = folder / file.path;
    std::error_code failed;
    fs::create_directories(target.parent_path(), failed);
    MEMOPD_RETURN_IF_ERROR(fetch_file(file, partial_of(target), bulk));
    fs::permissions(partial_of(target), static_cast<fs::perms>(file.mode & 0777), failed);
    fs::rename(partial_of(target), target, failed);
    if (failed) {
      return unexpected(ErrorCode::io_error, target.string() + ": " + failed.message());
    }
  }
  return {};
}

}  // namespace memopd

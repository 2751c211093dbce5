#include "policies/model/mapped_safetensors.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace memopd {

Expected<MappedSafetensors> MappedSafetensors::open(const std::filesystem::path& path) {
  struct stat before {};
  const bool is_there = ::stat(path.c_str(), &before) == 0;
  auto header = read_safetensors_header(path);
  if (!header) return unexpected(header.error());
  const auto failed = [&path](const std::string& what) {
    return unexpected(ErrorCode::io_error, path.string() + ": " + what);
  };
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return failed(std::strerror(errno));
  struct stat status {};
  std::uint64_t needed = 0;
  for (const SafetensorsEntry& entry : header->entries) needed = std::max(needed, entry.offset + entry.size_bytes);
  // The header came by another descriptor: both must have read one and the same file.
  const bool is_whole = is_there && ::fstat(file, &status) == 0 && status.st_dev == before.st_dev &&
                        status.st_ino == before.st_ino && static_cast<std::uint64_t>(status.st_size) >= needed;
  void* const mapped = is_whole && needed > 0 ? ::mmap(nullptr, needed, PROT_READ, MAP_PRIVATE, file, 0) : nullptr;
  const int error = errno;
  ::close(file);
  if (!is_whole) return failed("changed while it was opened");
  if (mapped == MAP_FAILED) return failed(std::strerror(error));
  MappedSafetensors result;
  result.path_ = path;
  result.header_ = *std::move(header);
  if (mapped != nullptr) result.file_ = {static_cast<const std::byte*>(mapped), needed};
  return result;
}

MappedSafetensors::MappedSafetensors(MappedSafetensors&& other) noexcept
    : path_(std::move(other.path_)), header_(std::move(other.header_)), file_(std::exchange(other.file_, {})) {}

MappedSafetensors& MappedSafetensors::operator=(MappedSafetensors&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(header_, other.header_);
  std::swap(file_, other.file_);
  return *this;
}

MappedSafetensors::~MappedSafetensors() {
  if (!file_.empty()) ::munmap(const_cast<std::byte*>(file_.data()), file_.size());
}

std::span<const std::byte> MappedSafetensors::bytes(const SafetensorsEntry& entry) const {
  return file_.subspan(entry.offset, entry.size_bytes);
}

void MappedSafetensors::release(const SafetensorsEntry& entry) const {
  // Whole pages only: the first and the last may hold a neighbour's bytes, which would only be read once more.
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = (entry.offset + page - 1) / page * page;
  const std::uint64_t end = (entry.offset + entry.size_bytes) / page * page;
  if (begin < end) ::madvise(const_cast<std::byte*>(file_.data()) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace memopd

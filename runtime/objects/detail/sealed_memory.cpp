#include "runtime/objects/detail/sealed_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace memopd::detail {
namespace {

constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

Expected<std::shared_ptr<Mapping>> map(const Descriptor& memory, std::size_t size_bytes, int protection, int flags) {
  if (size_bytes == 0) {
    return std::make_shared<Mapping>();
  }
  void* const address = ::mmap(nullptr, size_bytes, protection, flags, memory.get(), 0);
  if (address == MAP_FAILED) {
    return unexpected(system_error("map " + std::to_string(size_bytes) + " bytes", errno));
  }
  return std::make_shared<Mapping>(std::span(static_cast<std::byte*>(address), size_bytes));
}

}  // namespace

void Descriptor::reset() {
  if (fd_ >= 0) {
    ::close(std::exchange(fd_, -1));
  }
}

Error system_error(std::string_view what, int number) {
  const bool is_full = number == EMFILE || number == ENFILE;
  std::string text = std::string(what) + ": " + std::strerror(number);
  if (number == EMFILE) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    text += ": at most " + std::to_string(limit.rlim_cur) + " descriptors in this process (RLIMIT_NOFILE)";
  }
  return {is_full ? ErrorCode::overloaded : ErrorCode::io_error, std::move(text)};
}

std::size_t raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

void Mapping::unmap() {
  if (!bytes_.empty()) {
    ::munmap(bytes_.data(), bytes_.size());
    bytes_ = {};
  }
}

Expected<Descriptor> create_memory(std::size_t size_bytes) {
  Descriptor memory(::memfd_create("memopd-object", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.is_open()) {
    return unexpected(system_error("create a memfd", errno));
  }
  if (::ftruncate(memory.get(), static_cast<off_t>(size_bytes)) != 0) {
    return unexpected(system_error("a memfd of " + std::to_string(size_bytes) + " bytes", errno));
  }
  return memory;
}

Expected<Descriptor> make_sealed(std::span<const std::byte> bytes) {
  auto memory = create_memory(bytes.size());
  MEMOPD_RETURN_IF_ERROR(memory);
  for (std::span<const std::byte> left = bytes; !left.empty();) {
    const ssize_t written = ::write(memory->get(), left.data(), left.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return unexpected(system_error("write " + std::to_string(bytes.size()) + " bytes to a memfd", errno));
    }
    left = left.subspan(static_cast<std::size_t>(written));
  }
  MEMOPD_RETURN_IF_ERROR(seal(*memory));
  return memory;
}

Expected<void> seal(const Descriptor& memory) {
  if (::fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0) {
    return unexpected(system_error("seal a memfd", errno));
  }
  return {};
}

Expected<void> check_sealed(const Descriptor& memory, std::uint64_t size_bytes) {
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  if (seals < 0) {
    return unexpected(ErrorCode::refused, "a descriptor that is no memfd");
  }
  if ((seals & kSeals) != kSeals) {
    return unexpected(ErrorCode::refused, "a memfd with seals " + std::to_string(seals) + ", expected " +
                                              std::to_string(kSeals) + " (seal, shrink, grow, write)");
  }
  struct stat status {};
  if (::fstat(memory.get(), &status) != 0 || static_cast<std::uint64_t>(status.st_size) != size_bytes) {
    return unexpected(ErrorCode::refused,
                      "a memfd of " + std::to_string(status.st_size) + " bytes, claimed " + std::to_string(size_bytes));
  }
  return {};
}

Expected<std::shared_ptr<Mapping>> map_readable(const Descriptor& memory, std::size_t size_bytes) {
  return map(memory, size_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE);
}

Expected<std::shared_ptr<Mapping>> map_writable(const Descriptor& memory, std::size_t size_bytes) {
  return map(memory, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED);
}

}  // namespace memopd::detail

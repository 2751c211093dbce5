// Sealed memfds: bytes that many processes map and nobody can change any more (R14). No name, so nothing is left behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "runtime/base/expected.hpp"

namespace memopd::detail {

/// Owns a descriptor; -1 = none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

/// io_error or, without a descriptor left, overloaded; `what` and the reason of `number`.
[[nodiscard]] Error system_error(std::string_view what, int number);
/// Raises the soft limit of descriptors to the hard one. @return the limit then
std::size_t raise_descriptor_limit();

/// A mapped range; unmapped at its end. Thread-safe.
class Mapping {
 public:
  Mapping() = default;
  explicit Mapping(std::span<std::byte> bytes) : bytes_(bytes) {}
  ~Mapping() { unmap(); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  /// Writable only if it was mapped so.
  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }
  void unmap();

 private:
  std::span<std::byte> bytes_;
};

/// A memfd of fixed size that is not sealed yet.
/// @error io_error, overloaded  no memory or no descriptor
[[nodiscard]] Expected<Descriptor> create_memory(std::size_t size_bytes);
/// A sealed memfd with these bytes. Written, not mapped: half the page faults.
[[nodiscard]] Expected<Descriptor> make_sealed(std::span<const std::byte> bytes);
/// @error io_error  the kernel refused: a writable mapping is left
[[nodiscard]] Expected<void> seal(const Descriptor& memory);
/// @error refused  not a memfd, not sealed against growing, shrinking, writing and unsealing, or of another size
[[nodiscard]] Expected<void> check_sealed(const Descriptor& memory, std::uint64_t size_bytes);
/// @error io_error
[[nodiscard]] Expected<std::shared_ptr<Mapping>> map_readable(const Descriptor& memory, std::size_t size_bytes);
[[nodiscard]] Expected<std::shared_ptr<Mapping>> map_writable(const Descriptor& memory, std::size_t size_bytes);

}  // namespace memopd::detail

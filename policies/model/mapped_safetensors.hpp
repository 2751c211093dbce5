// A safetensors file mapped into memory: tensors are read where they lie, without a second copy of the file.
//
// The header is checked as read_safetensors_header does before any tensor is offered. Files of a model are replaced by
// rename; one that is cut short in place while it is mapped ends the process (SIGBUS), as with every mapped file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "policies/model/safetensors.hpp"
#include "runtime/base/expected.hpp"

namespace memopd {

/// Movable. Thread-safe.
class MappedSafetensors {
 public:
  /// @error those of read_safetensors_header; io_error  the file cannot be mapped or changed meanwhile
  static Expected<MappedSafetensors> open(const std::filesystem::path& path);
  MappedSafetensors(MappedSafetensors&& other) noexcept;
  MappedSafetensors& operator=(MappedSafetensors&& other) noexcept;
  MappedSafetensors(const MappedSafetensors&) = delete;
  MappedSafetensors& operator=(const MappedSafetensors&) = delete;
  ~MappedSafetensors();

  [[nodiscard]] const SafetensorsHeader& header() const { return header_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// The bytes of an entry of `header()`; valid as long as this. Aligned to nothing.
  [[nodiscard]] std::span<const std::byte> bytes(const SafetensorsEntry& entry) const;
  /// Gives the memory behind an entry back to the system; reading it again is slower, not wrong.
  void release(const SafetensorsEntry& entry) const;

 private:
  MappedSafetensors() = default;

  std::filesystem::path path_;
  SafetensorsHeader header_;
  std::span<const std::byte> file_;
};

}  // namespace memopd

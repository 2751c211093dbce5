// SHA-256 (FIPS 180-4) from libcrypto: what tells that a payload arrived as it was sent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace memopd {

using Sha256Digest = std::array<std::uint8_t, 32>;

/// Incremental. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void append(std::span<const std::byte> bytes);
  /// Of everything appended; the object is used up.
  [[nodiscard]] Sha256Digest finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

[[nodiscard]] Sha256Digest sha256(std::span<const std::byte> bytes);

}  // namespace memopd

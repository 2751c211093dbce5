// zstd over the bodies of records. Internal to this folder and its tests.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/expected.hpp"

struct ZSTD_CCtx_s;

namespace memopd::detail {

/// What a compressed body may grow to; a longer one is damage.
inline constexpr std::size_t kMaxBodyBytes = std::size_t{1} << 32;

/// Keeps its working memory between calls. Not thread-safe.
class Compressor {
 public:
  Compressor();
  ~Compressor();
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  /// One zstd frame, or nothing when that would not be smaller than `body`.
  [[nodiscard]] std::vector<std::byte> compress(std::span<const std::byte> body);

 private:
  ZSTD_CCtx_s* context_;
};

/// Allocates by what comes out, never by what the frame claims.
/// @error parse_error  not exactly one whole frame, or more than kMaxBodyBytes in it
[[nodiscard]] Expected<std::vector<std::byte>> decompress(std::span<const std::byte> frame);

}  // namespace memopd::detail

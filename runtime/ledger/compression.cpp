#include "runtime/ledger/compression.hpp"

#include <zstd.h>

#include <new>
#include <string>

namespace memopd::detail {
namespace {

constexpr int kLevel = 3;

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

}  // namespace

Compressor::Compressor() : context_(ZSTD_createCCtx()) {
  if (context_ == nullptr) {
    throw std::bad_alloc();
  }
}

Compressor::~Compressor() { ZSTD_freeCCtx(context_); }

std::vector<std::byte> Compressor::compress(std::span<const std::byte> body) {
  // Room for one byte less than the body: what does not fit is not worth it.
  std::vector<std::byte> frame(body.empty() ? 0 : body.size() - 1);
  const std::size_t size = ZSTD_compressCCtx(context_, frame.data(), frame.size(), body.data(), body.size(), kLevel);
  frame.resize(ZSTD_isError(size) != 0U ? 0 : size);
  return frame;
}

Expected<std::vector<std::byte>> decompress(std::span<const std::byte> frame) {
  const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  ZSTD_inBuffer in{frame.data(), frame.size(), 0};
  std::vector<std::byte> body;
  std::size_t size = 0;
  while (true) {
    body.resize(size + ZSTD_DStreamOutSize());
    ZSTD_outBuffer out{body.data() + size, body.size() - size, 0};
    const std::size_t hint = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(hint) != 0U) {
      return unexpected(ErrorCode::parse_error, std::string("compressed body: ") + ZSTD_getErrorName(hint));
    }
    size += out.pos;
    if (hint == 0 && in.pos == in.size) {
      body.resize(size);
      return body;
    }
    if (hint == 0 || size > kMaxBodyBytes || (in.pos == in.size && out.pos < out.size)) {
      return unexpected(ErrorCode::parse_error, "compressed body: not one whole frame of at most 4 GiB");
    }
  }
}

}  // namespace memopd::detail

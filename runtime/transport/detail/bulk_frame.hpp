// What passes over a bulk connection: requests and credits one way, chunks or a failure the other.
//
// A chunk is two parts: BulkChunk as a frame of runtime/wire, then its bytes.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/transport/bulk.hpp"
#include "runtime/wire/frame.hpp"

namespace memopd::detail {

struct BulkRequest {
  std::uint64_t transfer = 0;  ///< chosen by who fetches, unique on its connection
  BulkObjectId object;
  std::uint64_t offset = 0;  ///< multiple of the object's chunk size
  std::uint32_t window = 0;  ///< chunks that may come before the first credit
};
MEMOPD_MESSAGE(BulkRequest, 1, transfer, object, offset, window)

struct BulkCredit {
  std::uint64_t transfer = 0;
  std::uint32_t count = 0;
};
MEMOPD_MESSAGE(BulkCredit, 1, transfer, count)

struct BulkCancel {
  std::uint64_t transfer = 0;
};
MEMOPD_MESSAGE(BulkCancel, 1, transfer)

struct BulkChunk {
  std::uint64_t transfer = 0;
  std::uint64_t offset = 0;
};
MEMOPD_MESSAGE(BulkChunk, 1, transfer, offset)

struct BulkFailure {
  std::uint64_t transfer = 0;
  std::string code;  ///< as to_string(ErrorCode) prints it
  std::string message;
};
MEMOPD_MESSAGE(BulkFailure, 1, transfer, code, message)

inline constexpr std::uint32_t kMinChunkBytes = 256 << 10;
inline constexpr std::uint32_t kMaxChunkBytes = 1 << 20;
inline constexpr std::uint32_t kMaxWindow = 32;
inline constexpr std::int64_t kMaxBulkRequestBytes = 4096;
inline constexpr std::size_t kMaxTransfersPerConnection = 16;

}  // namespace memopd::detail

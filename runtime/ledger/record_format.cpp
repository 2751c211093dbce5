#include "runtime/ledger/record_format.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

namespace memopd::detail {
namespace {

constexpr std::size_t kCheckedPrefixBytes = 6;  // size, kind, encoding
constexpr std::size_t kHashedPrefixBytes = 8;   // and their check

template <class Integer>
void put(std::vector<std::byte>& out, Integer value) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    out.push_back(static_cast<std::byte>((value >> (8 * i)) & 0xff));
  }
}

template <class Integer>
Integer get(std::span<const std::byte> bytes, std::size_t at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    value |= static_cast<std::uint64_t>(bytes[at + i]) << (8 * i);
  }
  return static_cast<Integer>(value);
}

std::uint16_t prefix_check(std::span<const std::byte> prefix) {
  return static_cast<std::uint16_t>(XXH3_64bits(prefix.data(), kCheckedPrefixBytes) & 0xffff);
}

std::uint64_t checksum(std::span<const std::byte> prefix, std::span<const std::byte> body) {
  const std::uint64_t seed = XXH3_64bits(prefix.data(), kHashedPrefixBytes);
  return XXH3_64bits_withSeed(body.data(), body.size(), seed);
}

}  // namespace

std::string segment_name(std::int32_t number) { return fmt::format("segment-{:06}.ledger", number); }

std::vector<std::byte> segment_header() {
  std::vector<std::byte> header(kSegmentHeaderBytes);
  std::transform(kSegmentMagic.begin(), kSegmentMagic.end(), header.begin(),
                 [](char c) { return static_cast<std::byte>(c); });
  header[kSegmentMagic.size()] = static_cast<std::byte>(kSegmentVersion);
  return header;
}

std::vector<std::byte> frame_record(RecordKind kind, Encoding encoding, std::span<const std::byte> body) {
  std::vector<std::byte> record;
  record.reserve(kRecordHeaderBytes + body.size());
  put(record, static_cast<std::uint32_t>(body.size()));
  put(record, static_cast<std::uint8_t>(kind));
  put(record, static_cast<std::uint8_t>(encoding));
  put(record, prefix_check(record));
  put(record, checksum(record, body));
  record.insert(record.end(), body.begin(), body.end());
  return record;
}

bool parse_record_header(std::span<const std::byte> bytes, RecordHeader& header) {
  header.body_bytes = get<std::uint32_t>(bytes, 0);
  header.kind = get<std::uint8_t>(bytes, 4);
  header.encoding = get<std::uint8_t>(bytes, 5);
  header.checksum = get<std::uint64_t>(bytes, 8);
  return get<std::uint16_t>(bytes, kCheckedPrefixBytes) == prefix_check(bytes);
}

bool is_intact(std::span<const std::byte> record, const RecordHeader& header) {
  return checksum(record.first(kHashedPrefixBytes), record.subspan(kRecordHeaderBytes)) == header.checksum;
}

}  // namespace memopd::detail

#include "runtime/ledger/segment_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/ledger/compression.hpp"

namespace memopd::detail {
namespace {

bool is_all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

SegmentReader::SegmentReader(std::filesystem::path path, bool is_last) : path_(std::move(path)), is_last_(is_last) {}

Expected<std::optional<LedgerRecord>> SegmentReader::next() {
  if (size_ < 0) {
    MEMOPD_RETURN_IF_ERROR(open());
  }
  if (torn_bytes_ > 0 || at_ == size_) {
    return std::optional<LedgerRecord>();
  }
  RecordHeader header;
  const auto is_there = read_record_header(header);
  if (!is_there) {
    return unexpected(is_there.error());
  }
  return *is_there ? read_body(header) : std::optional<LedgerRecord>();
}

Expected<void> SegmentReader::open() {
  file_.open(path_, std::ios::binary | std::ios::ate);
  size_ = file_ ? static_cast<std::int64_t>(file_.tellg()) : -1;
  if (size_ < 0) {
    return unexpected(ErrorCode::io_error, fmt::format("ledger {}: cannot be read", path_.string()));
  }
  file_.seekg(0);
  return read_segment_header();
}

Expected<void> SegmentReader::read_segment_header() {
  const auto expected = segment_header();
  if (size_ < static_cast<std::int64_t>(expected.size()) || (is_last_ && is_zero_from(0))) {
    return torn("no whole segment header");
  }
  MEMOPD_RETURN_IF_ERROR(read_bytes(expected.size(), record_));
  if (!std::equal(record_.begin(), record_.begin() + kSegmentMagic.size(), expected.begin())) {
    return unexpected(ErrorCode::parse_error, fmt::format("ledger {}: not a ledger segment", path_.string()));
  }
  const auto version = static_cast<int>(record_[kSegmentMagic.size()]);
  if (version != kSegmentVersion) {
    return unexpected(ErrorCode::unsupported, fmt::format("ledger {}: found version {}, allowed {}", path_.string(),
                                                          version, int{kSegmentVersion}));
  }
  at_ = static_cast<std::int64_t>(expected.size());
  return {};
}

Expected<bool> SegmentReader::read_record_header(RecordHeader& header) {
  const std::int64_t left = size_ - at_;
  if (left < static_cast<std::int64_t>(kRecordHeaderBytes)) {
    const auto end = torn("no whole record header");
    return end ? Expected<bool>(false) : unexpected(end.error());
  }
  MEMOPD_RETURN_IF_ERROR(read_bytes(kRecordHeaderBytes, record_));
  if (!parse_record_header(record_, header)) {
    if (!is_all_zero(record_) || !is_zero_from(at_)) {
      return damaged("damaged record header");
    }
    const auto end = torn("no whole record header");
    return end ? Expected<bool>(false) : unexpected(end.error());
  }
  if (static_cast<std::int64_t>(kRecordHeaderBytes + header.body_bytes) > left) {
    const auto end = torn("no whole record");
    return end ? Expected<bool>(false) : unexpected(end.error());
  }
  return true;
}

Expected<std::optional<LedgerRecord>> SegmentReader::read_body(const RecordHeader& header) {
  std::vector<std::byte> body;
  MEMOPD_RETURN_IF_ERROR(read_bytes(header.body_bytes, body));
  record_.insert(record_.end(), body.begin(), body.end());
  const auto size = static_cast<std::int64_t>(record_.size());
  if (!is_intact(record_, header)) {
    if (at_ + size < size_) {
      return damaged("damaged record");
    }
    MEMOPD_RETURN_IF_ERROR(torn("damaged record"));
    return std::optional<LedgerRecord>();
  }
  if (header.encoding == static_cast<std::uint8_t>(Encoding::zstd)) {
    auto plain = decompress(body);
    if (!plain) {
      return damaged(plain.error().message);
    }
    body = *std::move(plain);
  } else if (header.encoding != static_cast<std::uint8_t>(Encoding::plain)) {
    return unexpected(ErrorCode::unsupported,
                      fmt::format("ledger {}, byte {}: encoding {} of a record", path_.string(), at_, header.encoding));
  }
  auto record = decode_record(header, body);
  if (!record) {
    return unexpected(record.error());
  }
  at_ += size;
  body_bytes_ += static_cast<std::int64_t>(body.size());
  return std::optional<LedgerRecord>(*std::move(record));
}

Expected<LedgerRecord> SegmentReader::decode_record(const RecordHeader& header, std::span<const std::byte> body) {
  switch (static_cast<RecordKind>(header.kind)) {
    case RecordKind::invocation:
      return decode_as<InvocationRecord>(body);
    case RecordKind::trajectory:
      return decode_as<TrajectoryRecord>(body);
    case RecordKind::step:
      return decode_as<StepRecord>(body);
    case RecordKind::dropped:
      return decode_as<DroppedRecord>(body);
    case RecordKind::rolled_back:
      return decode_as<RolledBackRecord>(body);
    case RecordKind::pruned:
      return decode_as<PrunedRecord>(body);
  }
  return unexpected(ErrorCode::unsupported,
                    fmt::format("ledger {}, byte {}: kind {} of a record", path_.string(), at_, header.kind));
}

template <class Record>
Expected<LedgerRecord> SegmentReader::decode_as(std::span<const std::byte> body) {
  auto record = decode<Record>(body);
  return record ? Expected<LedgerRecord>(*std::move(record)) : damaged(record.error().message);
}

Expected<void> SegmentReader::read_bytes(std::size_t count, std::vector<std::byte>& bytes) {
  bytes.resize(count);
  file_.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(count));
  return file_ ? Expected<void>()
               : unexpected(ErrorCode::io_error, fmt::format("ledger {}: cannot be read", path_.string()));
}

bool SegmentReader::is_zero_from(std::int64_t offset) {
  constexpr std::int64_t kChunkBytes = 65536;
  std::vector<std::byte> chunk;
  file_.seekg(offset);
  bool is_zero = true;
  for (std::int64_t at = offset; is_zero && at < size_; at += kChunkBytes) {
    is_zero = read_bytes(static_cast<std::size_t>(std::min(kChunkBytes, size_ - at)), chunk) && is_all_zero(chunk);
  }
  file_.clear();
  file_.seekg(offset);
  return is_zero;
}

Expected<void> SegmentReader::torn(const std::string& what) {
  if (!is_last_) {
    return damaged(what);
  }
  torn_bytes_ = size_ - at_;
  return {};
}

Unexpected SegmentReader::damaged(const std::string& what) const {
  return unexpected(ErrorCode::parse_error, fmt::format("ledger {}, byte {}: {}", path_.string(), at_, what));
}

}  // namespace memopd::detail

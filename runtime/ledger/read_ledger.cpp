#include "runtime/ledger/read_ledger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <system_error>
#include <utility>

#include "runtime/ledger/record_format.hpp"

namespace memopd {
namespace {

namespace fs = std::filesystem;
using Bytes = std::span<const std::byte>;

/// Numbers of the segments there, ascending.
Expected<std::vector<std::int32_t>> segment_numbers(const fs::path& folder) {
  std::vector<std::int32_t> numbers;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    int number = 0;
    const std::string name = entry.path().filename().string();
    if (std::sscanf(name.c_str(), "segment-%6d.ledger", &number) == 1 && name == detail::segment_name(number)) {
      numbers.push_back(number);
    }
  }
  if (error || numbers.empty()) {
    return unexpected(ErrorCode::not_found, fmt::format("ledger {}: no segment there", folder.string()));
  }
  std::sort(numbers.begin(), numbers.end());
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    if (numbers[i] != numbers[i - 1] + 1) {
      return unexpected(ErrorCode::parse_error, fmt::format("ledger {}: {} is missing", folder.string(),
                                                            detail::segment_name(numbers[i - 1] + 1)));
    }
  }
  return numbers;
}

Expected<std::vector<std::byte>> read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = file.tellg();
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::max<std::streamoff>(0, size)));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) {
    return unexpected(ErrorCode::io_error, fmt::format("ledger {}: cannot be read", path.string()));
  }
  return bytes;
}

/// A crash may leave a file longer than what reached it: the rest reads as zeros.
bool is_all_zero(Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

/// Reads the records of one segment.
class SegmentReader {
 public:
  SegmentReader(fs::path path, Bytes bytes, bool is_last, LedgerContents& contents)
      : path_(std::move(path)), bytes_(bytes), is_last_(is_last), contents_(contents) {}

  Expected<void> read() {
    MEMOPD_RETURN_IF_ERROR(read_header());
    while (at_ < bytes_.size()) {
      const std::size_t before = at_;
      MEMOPD_RETURN_IF_ERROR(read_record());
      if (at_ == before) {
        return {};  // torn; counted
      }
    }
    return {};
  }

 private:
  Expected<void> read_header() {
    const auto expected = detail::segment_header();
    if (bytes_.size() < expected.size() || (is_last_ && is_all_zero(bytes_))) {
      at_ = bytes_.size();
      return torn(0, "no whole segment header");
    }
    const auto* begin = bytes_.begin().base();
    if (!std::equal(begin, begin + detail::kSegmentMagic.size(), expected.begin())) {
      return unexpected(ErrorCode::parse_error, fmt::format("ledger {}: not a ledger segment", path_.string()));
    }
    const auto version = static_cast<int>(bytes_[detail::kSegmentMagic.size()]);
    if (version != detail::kSegmentVersion) {
      return unexpected(ErrorCode::unsupported, fmt::format("ledger {}: found version {}, allowed {}", path_.string(),
                                                            version, int{detail::kSegmentVersion}));
    }
    at_ = expected.size();
    return {};
  }

  Expected<void> read_record() {
    const Bytes rest = bytes_.subspan(at_);
    if (rest.size() < detail::kRecordHeaderBytes || is_all_zero(rest)) {
      return torn(at_, "no whole record header");
    }
    detail::RecordHeader header;
    if (!detail::parse_record_header(rest, header)) {
      return damaged(at_, "damaged record header");
    }
    const std::size_t size = detail::kRecordHeaderBytes + header.body_bytes;
    if (size > rest.size()) {
      return torn(at_, "no whole record");
    }
    if (!detail::is_intact(rest.first(size), header)) {
      return size == rest.size() ? torn(at_, "damaged record") : damaged(at_, "damaged record");
    }
    MEMOPD_RETURN_IF_ERROR(decode_record(header, rest.subspan(detail::kRecordHeaderBytes, header.body_bytes)));
    at_ += size;
    return {};
  }

  Expected<void> decode_record(const detail::RecordHeader& header, Bytes body) {
    if (header.encoding != static_cast<std::uint8_t>(detail::Encoding::plain)) {
      return unexpected(ErrorCode::unsupported, fmt::format("ledger {}, byte {}: encoding {} of a record",
                                                            path_.string(), at_, header.encoding));
    }
    switch (static_cast<RecordKind>(header.kind)) {
      case RecordKind::invocation:
        return keep<InvocationRecord>(body);
      case RecordKind::trajectory:
        return keep<TrajectoryRecord>(body);
      case RecordKind::step:
        return keep<StepRecord>(body);
      case RecordKind::dropped:
        return keep<DroppedRecord>(body);
      case RecordKind::rolled_back:
        return keep<RolledBackRecord>(body);
    }
    return unexpected(ErrorCode::unsupported,
                      fmt::format("ledger {}, byte {}: kind {} of a record", path_.string(), at_, header.kind));
  }

  template <class Record>
  Expected<void> keep(Bytes body) {
    auto record = decode<Record>(body);
    if (!record) {
      return damaged(at_, record.error().message);
    }
    contents_.records.emplace_back(*std::move(record));
    return {};
  }

  /// The end of the last segment may be torn; the end of another cannot (LE-3).
  Expected<void> torn(std::size_t at, const std::string& what) {
    if (!is_last_) {
      return damaged(at, what);
    }
    contents_.torn_bytes = static_cast<std::int64_t>(bytes_.size() - at);
    return {};
  }

  [[nodiscard]] Unexpected damaged(std::size_t at, const std::string& what) const {
    return unexpected(ErrorCode::parse_error, fmt::format("ledger {}, byte {}: {}", path_.string(), at, what));
  }

  fs::path path_;
  Bytes bytes_;
  bool is_last_;
  LedgerContents& contents_;
  std::size_t at_ = 0;
};

}  // namespace

Expected<LedgerContents> read_ledger(const fs::path& folder) {
  const auto numbers = segment_numbers(folder);
  if (!numbers) {
    return unexpected(numbers.error());
  }
  LedgerContents contents;
  for (const std::int32_t number : *numbers) {
    const fs::path path = folder / detail::segment_name(number);
    const auto bytes = read_bytes(path);
    if (!bytes) {
      return unexpected(bytes.error());
    }
    MEMOPD_RETURN_IF_ERROR(SegmentReader(path, *bytes, number == numbers->back(), contents).read());
  }
  return contents;
}

}  // namespace memopd

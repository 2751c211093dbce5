// The records of one segment, one after the other. Internal to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/ledger/read_ledger.hpp"
#include "runtime/ledger/record_format.hpp"

namespace memopd::detail {

/// Holds one record at a time. Reads up to the size that the file had when it was opened. Not thread-safe.
class SegmentReader {
 public:
  /// @param is_last  of its ledger: only then may its end be torn (LE-3)
  SegmentReader(std::filesystem::path path, bool is_last);

  /// The next record, or nothing at the end; a torn end is an end.
  /// @error parse_error  damage; names file and byte offset
  /// @error unsupported  a segment of a newer version, an unknown kind or encoding
  /// @error io_error
  [[nodiscard]] Expected<std::optional<LedgerRecord>> next();

  /// Valid once next() has returned nothing.
  [[nodiscard]] std::int64_t whole_bytes() const { return at_; }  ///< up to the last whole record; 0 without a header
  [[nodiscard]] std::int64_t torn_bytes() const { return torn_bytes_; }
  [[nodiscard]] std::int64_t size_bytes() const { return size_; }
  [[nodiscard]] std::int64_t body_bytes() const { return body_bytes_; }  ///< of the records read, uncompressed

 private:
  Expected<void> open();
  Expected<void> read_segment_header();
  /// @return false at the end
  Expected<bool> read_record_header(RecordHeader& header);
  Expected<std::optional<LedgerRecord>> read_body(const RecordHeader& header);
  Expected<LedgerRecord> decode_record(const RecordHeader& header, std::span<const std::byte> body);
  template <class Record>
  Expected<LedgerRecord> decode_as(std::span<const std::byte> body);
  Expected<void> read_bytes(std::size_t count, std::vector<std::byte>& bytes);
  /// A crash may leave a file longer than what reached it: the rest reads as zeros.
  bool is_zero_from(std::int64_t offset);
  /// Takes everything from at_ on for torn. @error parse_error  unless this is the last segment
  Expected<void> torn(const std::string& what);
  [[nodiscard]] Unexpected damaged(const std::string& what) const;

  std::filesystem::path path_;
  bool is_last_;
  std::ifstream file_;
  std::int64_t size_ = -1;  ///< -1: not opened
  std::int64_t at_ = 0;     ///< end of the last whole record
  std::int64_t torn_bytes_ = 0;
  std::int64_t body_bytes_ = 0;
  std::vector<std::byte> record_;  ///< header and body as on disk
};

}  // namespace memopd::detail

// Reads a ledger: record by record, or whole into memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/ledger/ledger.hpp"

namespace memopd {

/// What a reader saw beside the records.
struct LedgerExtent {
  std::int32_t first_segment = 0;  ///< > 0: older ones were pruned
  std::int32_t num_segments = 0;
  std::int64_t size_bytes = 0;  ///< of all segments, on disk
  std::int64_t body_bytes = 0;  ///< of all records, uncompressed
  std::int64_t torn_bytes = 0;  ///< at the end of the last segment, of a record that never became whole
};

struct LedgerContents {
  std::vector<LedgerRecord> records;  ///< in the order of writing
  std::int64_t torn_bytes = 0;        ///< as in LedgerExtent
};

/// Gives each record to `visit` in the order of writing; holds one at a time.
/// @error not_found    no segment there
/// @error parse_error  a damaged record, a gap in the segments; names file and byte offset
/// @error unsupported  a segment of a newer version
/// @error io_error, and what `visit` returned
Expected<LedgerExtent> for_each_record(const std::filesystem::path& folder, const RecordVisitor& visit);

/// @error those of for_each_record
[[nodiscard]] Expected<LedgerContents> read_ledger(const std::filesystem::path& folder);

}  // namespace memopd

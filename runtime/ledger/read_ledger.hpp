// Reads a ledger whole, into memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <variant>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/ledger/ledger.hpp"

namespace memopd {

using LedgerRecord = std::variant<InvocationRecord, TrajectoryRecord, StepRecord, DroppedRecord, RolledBackRecord>;

struct LedgerContents {
  std::vector<LedgerRecord> records;  ///< in the order of writing
  std::int64_t torn_bytes = 0;        ///< at the end of the last segment, of a record that never became whole
};

/// @error not_found    no segment there
/// @error parse_error  a damaged record, a gap in the segments; names file and byte offset
/// @error unsupported  a segment of a newer version
/// @error io_error
[[nodiscard]] Expected<LedgerContents> read_ledger(const std::filesystem::path& folder);

}  // namespace memopd

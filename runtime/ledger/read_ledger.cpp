#include "runtime/ledger/read_ledger.hpp"

#include <optional>
#include <utility>

#include "runtime/ledger/segment_file.hpp"
#include "runtime/ledger/segment_reader.hpp"

namespace memopd {

Expected<LedgerExtent> for_each_record(const std::filesystem::path& folder, const RecordVisitor& visit) {
  const auto numbers = detail::segment_numbers(folder);
  if (!numbers) {
    return unexpected(numbers.error());
  }
  LedgerExtent extent;
  extent.first_segment = numbers->front();
  extent.num_segments = static_cast<std::int32_t>(numbers->size());
  for (const std::int32_t number : *numbers) {
    detail::SegmentReader reader(folder / detail::segment_name(number), number == numbers->back());
    while (true) {
      auto record = reader.next();
      if (!record) {
        return unexpected(record.error());
      }
      if (!*record) {
        break;
      }
      MEMOPD_RETURN_IF_ERROR(visit(**std::move(record)));
    }
    extent.size_bytes += reader.size_bytes();
    extent.body_bytes += reader.body_bytes();
    extent.torn_bytes = reader.torn_bytes();
  }
  return extent;
}

Expected<LedgerContents> read_ledger(const std::filesystem::path& folder) {
  LedgerContents contents;
  const auto extent = for_each_record(folder, [&contents](LedgerRecord record) -> Expected<void> {
    contents.records.push_back(std::move(record));
    return {};
  });
  if (!extent) {
    return unexpected(extent.error());
  }
  contents.torn_bytes = extent->torn_bytes;
  return contents;
}

}  // namespace memopd

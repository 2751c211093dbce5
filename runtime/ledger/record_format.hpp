// Bytes of segments and records: what the writer and the reader agree on. Internal to this folder and its tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/ledger/ledger.hpp"
#include "runtime/wire/data_codec.hpp"

namespace memopd {

MEMOPD_FIELDS(InvocationRecord, lineage, invocation)
MEMOPD_FIELDS(TrajectoryRecord, lineage, num_invocations, trajectory)
MEMOPD_FIELDS(StepRecord, lineage, step, policy_version, trajectories)
MEMOPD_FIELDS(DroppedRecord, lineage, trajectory_id, attempt, reason)
MEMOPD_FIELDS(RolledBackRecord, from_lineage, to_lineage, from_step, to_step)
MEMOPD_FIELDS(PrunedRecord, lineage, first_segment, complete_from_step)

}  // namespace memopd

namespace memopd::detail {

inline constexpr std::string_view kSegmentMagic = "MEMOPDLG";
inline constexpr std::uint8_t kSegmentVersion = 1;
inline constexpr std::size_t kSegmentHeaderBytes = 16;
inline constexpr std::size_t kRecordHeaderBytes = 16;

enum class Encoding : std::uint8_t { plain = 0, zstd = 1 };

struct RecordHeader {
  std::uint32_t body_bytes = 0;
  std::uint8_t kind = 0;
  std::uint8_t encoding = 0;
  std::uint64_t checksum = 0;
};

/// "segment-000012.ledger"
[[nodiscard]] std::string segment_name(std::int32_t number);

[[nodiscard]] std::vector<std::byte> segment_header();

/// A header and its body as it stands. @pre the body is below 4 GiB
[[nodiscard]] std::vector<std::byte> frame_record(RecordKind kind, Encoding encoding, std::span<const std::byte> body);

/// Reads kRecordHeaderBytes.
/// @return false when the bytes are no record header: their own check does not hold
[[nodiscard]] bool parse_record_header(std::span<const std::byte> bytes, RecordHeader& header);

/// Whether the checksum of a whole record (header and body) holds.
[[nodiscard]] bool is_intact(std::span<const std::byte> record, const RecordHeader& header);

}  // namespace memopd::detail

// The append-only record of every invocation, written before anything is done with it (RL-1).
//
// LE-1  a record is on its way to disk before append() returns, and on it after sync().
// LE-2  key = (lineage, trajectory_id, attempt, invocation_index). The same key with the same ids is dropped and
//       reported as repeated; with other ids it is an error (RL-2).
// LE-3  a segment torn by a crash is read up to its last whole record; damage anywhere else is an error.
//
// Segment `segment-000000.ledger`: "MEMOPDLG", version (u8), 7 zero bytes; then records
//   size of body (u32), kind (u8), encoding (u8; 0 = plain), low 16 bits of XXH3-64 of these 6 bytes,
//   XXH3-64 of the body, seeded with that of these 8 bytes (u64), body = a msgpack map (runtime/wire). Little endian.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/data/invocation.hpp"
#include "runtime/data/trajectory.hpp"

namespace memopd {

/// Kinds of records; the numbers are on disk.
enum class RecordKind : std::uint8_t { invocation = 1, trajectory = 2, step = 3, dropped = 4, rolled_back = 5 };

/// An Invocation and the lineage it was sampled in.
struct InvocationRecord {
  std::int64_t lineage = 0;
  Invocation invocation{};
};

/// A Trajectory without its invocations, which have their own records; names the attempt that counts.
struct TrajectoryRecord {
  std::int64_t lineage = 0;
  std::int32_t num_invocations = 0;
  Trajectory trajectory{};
};

/// A closed step and what was trained in it.
struct StepRecord {
  std::int64_t lineage = 0;
  std::int32_t step = 0;
  std::int64_t policy_version = 0;           ///< after its optimizer steps
  std::vector<TrajectoryId> trajectories{};  ///< that entered it, in id order
};

/// A trajectory that is not trained on.
struct DroppedRecord {
  std::int64_t lineage = 0;
  TrajectoryId trajectory_id{};
  std::int32_t attempt = 0;
  std::string reason{};  ///< a status name, "empty", ..
};

/// The weights went back; what follows belongs to `to_lineage`.
struct RolledBackRecord {
  std::int64_t from_lineage = 0;
  std::int64_t to_lineage = 0;
  std::int32_t from_step = 0;
  std::int32_t to_step = 0;
};

enum class AppendResult : std::uint8_t {
  written,
  repeated,  ///< the same record was there; nothing written
};

struct LedgerOptions {
  std::int64_t lineage = 0;
  std::int32_t steps_per_segment = 16;  ///< a new file after so many closed steps; >= 1
};

/// One writer per ledger. Thread-safe.
class LedgerWriter {
 public:
  /// Makes `folder` and its first segment.
  /// @error already_exists    the folder holds segments
  /// @error invalid_argument  options out of range
  /// @error io_error
  [[nodiscard]] static Expected<std::unique_ptr<LedgerWriter>> create(const std::filesystem::path& folder,
                                                                      const LedgerOptions& options = {});
  ~LedgerWriter();
  LedgerWriter(const LedgerWriter&) = delete;
  LedgerWriter& operator=(const LedgerWriter&) = delete;

  /// @error already_exists  the key is there with other ids; names the key and both
  /// @error io_error        the disk refused; the writer refuses everything from then on
  Expected<AppendResult> append(const Invocation& invocation);
  /// Writes it without its invocations. Key: (lineage, id, attempt).
  /// @error already_exists, io_error
  Expected<AppendResult> append(const Trajectory& trajectory);
  /// @error io_error
  Expected<void> append_step(std::int32_t step, std::int64_t policy_version, std::vector<TrajectoryId> trajectories);
  Expected<void> append_dropped(const TrajectoryId& id, std::int32_t attempt, std::string reason);
  /// Starts lineage + 1.
  Expected<void> append_rolled_back(std::int32_t from_step, std::int32_t to_step);
  /// Everything appended so far is on disk when this returns; called at step close.
  /// @error io_error
  Expected<void> sync();

  [[nodiscard]] std::int64_t lineage() const;
  [[nodiscard]] std::int64_t num_repeated() const;
  [[nodiscard]] std::int64_t size_bytes() const;

 private:
  struct State;
  explicit LedgerWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace memopd

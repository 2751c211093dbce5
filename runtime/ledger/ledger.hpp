// The append-only record of every invocation, written before anything is done with it (RL-1).
//
// LE-1  a record is on its way to disk before append() returns, and on it after sync().
// LE-2  key = (lineage, trajectory_id, attempt, invocation_index). The same key with the same ids is dropped and
//       reported as repeated; with other ids it is an error (RL-2).
// LE-3  a segment torn by a crash is read up to its last whole record; damage anywhere else is an error.
// LE-4  what comes too late is stale, is not written and must not be used: a new record of a trajectory that was trained
//       or dropped, and any record of one that was dispatched more than remembered_steps before the last closed step.
//       The keys of these are forgotten, so memory does not grow with the run.
//
// Who closes a step calls, in this order and once the learner has answered: append_dropped for every trajectory of the
// step that was not trained, whoever gave it up; append_step with the ids that were; sync. So each trajectory ends as
// exactly one of trained and dropped; audit_ledger (audit.hpp) checks it. Whoever was interrupted says all of it again.
//
// Segment `segment-000000.ledger`: "MEMOPDLG", version (u8), 7 zero bytes; then records
//   size of body (u32), kind (u8), encoding (u8; 0 = plain, 1 = zstd), low 16 bits of XXH3-64 of these 6 bytes,
//   XXH3-64 of the body, seeded with that of these 8 bytes (u64), body = a msgpack map (runtime/wire). Little endian.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/ledger/ledger_records.hpp"

namespace memopd {

enum class AppendResult : std::uint8_t {
  written,
  repeated,  ///< the same record was there; nothing written
  stale,     ///< too late (LE-4); nothing written
};

struct LedgerOptions {
  std::int64_t lineage = 0;             ///< create() only
  std::int32_t steps_per_segment = 16;  ///< a new file after so many closed steps; >= 1
  std::int32_t remembered_steps = 2;    ///< closed steps in whose trajectories repeats are known; >= 0
};

/// What open() found.
struct LedgerRecovery {
  std::int64_t num_records = 0;
  std::int64_t torn_bytes = 0;         ///< cut off the end of the last segment
  std::int32_t last_closed_step = -1;  ///< of the surviving weights; -1 = none
  /// Latest step with a training record in the last lineage; -1 = none. A run that goes on calls append_rolled_back
  /// first, with at least this + 1 as from_step: it samples the open step and its evaluations again.
  std::int32_t newest_step = -1;
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
  /// Goes on with a ledger in its last lineage: cuts off a torn end (logged), remembers the keys of the last steps, and
  /// starts a new segment. Reads the whole ledger, one record at a time, and gives each to `visit`, if there is one.
  /// @error not_found  no segment there; those of read_ledger and create; what `visit` returned
  [[nodiscard]] static Expected<std::unique_ptr<LedgerWriter>> open(const std::filesystem::path& folder,
                                                                    const LedgerOptions& options = {},
                                                                    const RecordVisitor& visit = {});
  ~LedgerWriter();
  LedgerWriter(const LedgerWriter&) = delete;
  LedgerWriter& operator=(const LedgerWriter&) = delete;

  /// @error already_exists  the key is there with other ids; names the key and both
  /// @error io_error        the disk refused; the writer refuses everything from then on
  Expected<AppendResult> append(const Invocation& invocation);
  /// Writes it without its invocations, which are `num_invocations`. Key: (lineage, id, attempt).
  /// @error already_exists, io_error
  Expected<AppendResult> append(const Trajectory& trajectory, std::int32_t num_invocations);
  /// Of a step that is closed already: nothing.
  /// @param policy_version  the learner's when the step was closed
  /// @error io_error
  Expected<void> append_step(std::int32_t step, std::int64_t policy_version, std::vector<TrajectoryId> trained);
  /// Of a trajectory that was trained or dropped already: nothing.
  /// @error io_error
  Expected<void> append_dropped(const TrajectoryId& id, std::int32_t attempt, std::string reason);
  /// Starts lineage + 1, in which every key is new: what was recorded of steps >= `to_step` does not count. Nothing if the
  /// last record is a rollback to the same step: the lineage that it began has not been used.
  /// @param from_step  the step that was next, or in progress, before
  /// @param to_step    the step that is next now; <= from_step
  Expected<void> append_rolled_back(std::int32_t from_step, std::int32_t to_step);
  /// Everything appended so far is on disk when this returns; called at step close.
  /// @error io_error
  Expected<void> sync();

  /// Deletes whole segments, oldest first, all of whose records are of steps more than `keep_steps` (and
  /// remembered_steps) before the last closed one; says in a record from which step on the ledger is complete.
  /// @return how many
  /// @error invalid_argument  keep_steps < 1
  /// @error io_error
  Expected<std::int32_t> prune(std::int32_t keep_steps);

  [[nodiscard]] const LedgerRecovery& recovery() const;  ///< all defaults after create()
  [[nodiscard]] std::int64_t lineage() const;
  [[nodiscard]] std::int64_t num_repeated() const;
  [[nodiscard]] std::int64_t num_stale() const;
  [[nodiscard]] std::int64_t size_bytes() const;  ///< of all segments

 private:
  struct State;
  explicit LedgerWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace memopd

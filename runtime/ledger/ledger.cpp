#include "runtime/ledger/ledger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/ledger/compression.hpp"
#include "runtime/ledger/record_format.hpp"
#include "runtime/ledger/segment_file.hpp"
#include "runtime/ledger/segment_reader.hpp"
#include "runtime/ledger/written_keys.hpp"

namespace memopd {
namespace {

using detail::Fingerprint;
using detail::RecordKey;
using detail::WrittenKeys;
namespace fs = std::filesystem;

constexpr std::string_view kTrainSplit = "train";

Trajectory without_invocations(const Trajectory& full) {
  Trajectory shell;
  shell.id = full.id;
  shell.attempt = full.attempt;
  shell.task_id = full.task_id;
  shell.env = full.env;
  shell.status = full.status;
  shell.rewards = full.rewards;
  shell.answer = full.answer;
  shell.metrics = full.metrics;
  return shell;
}

RecordKey key_of(const Invocation& invocation) {
  return {invocation.trajectory_id, invocation.attempt, invocation.invocation_index};
}
RecordKey key_of(const Trajectory& trajectory) {
  return {trajectory.id, trajectory.attempt, RecordKey::kTrajectoryItself};
}

std::string name_of(std::int64_t lineage, const RecordKey& key) {
  std::string name = fmt::format("lineage {}, trajectory {}, attempt {}", lineage, to_string(key.id), key.attempt);
  return key.invocation_index == RecordKey::kTrajectoryItself
             ? name
             : name + fmt::format(", invocation {}", key.invocation_index);
}

struct Segment {
  std::int32_t number = 0;
  std::int64_t size_bytes = 0;
  std::int32_t newest_step = -1;  ///< of any record in it
};

Expected<void> check(const LedgerOptions& options) {
  if (options.steps_per_segment < 1) {
    return unexpected(ErrorCode::invalid_argument,
                      fmt::format("ledger: steps_per_segment: found {}, allowed >= 1", options.steps_per_segment));
  }
  if (options.remembered_steps < 0) {
    return unexpected(ErrorCode::invalid_argument,
                      fmt::format("ledger: remembered_steps: found {}, allowed >= 0", options.remembered_steps));
  }
  return {};
}

}  // namespace

struct LedgerWriter::State {
  State(fs::path ledger_folder, const LedgerOptions& given)
      : folder(std::move(ledger_folder)), options(given), lineage(given.lineage), keys(given.remembered_steps) {}

  fs::path folder;
  LedgerOptions options;
  std::int64_t lineage;
  std::unique_ptr<detail::SegmentFile> file;  ///< of segments.back()
  std::vector<Segment> segments;
  std::int32_t steps_in_segment = 0;
  detail::Compressor compressor;
  WrittenKeys keys;
  std::int64_t num_repeated = 0;
  std::int64_t num_stale = 0;
  LedgerRecovery recovery;
  std::optional<std::int32_t> unused_since;  ///< the last record is a rollback to this step
  std::optional<Error> broken;               ///< the write that failed; nothing may follow a record that is not whole
  mutable std::mutex mutex;

  Expected<void> note(Expected<void> result) {
    if (!result) {
      broken = result.error();
    }
    return result;
  }

  Expected<void> write_bytes(std::span<const std::byte> bytes) {
    if (broken) {
      return unexpected(*broken);
    }
    segments.back().size_bytes += static_cast<std::int64_t>(bytes.size());
    return note(file->append(bytes));
  }

  Expected<void> begin_segment(std::int32_t number) {
    if (file) {
      MEMOPD_RETURN_IF_ERROR(note(file->sync()));
    }
    auto opened = detail::SegmentFile::create(folder / detail::segment_name(number));
    if (!opened) {
      return note(unexpected(opened.error()));
    }
    file = std::move(*opened);
    segments.push_back({number});
    steps_in_segment = 0;
    return write_bytes(detail::segment_header());
  }

  template <class Record>
  Expected<void> write_record(RecordKind kind, std::int32_t step, const Record& record) {
    const std::vector<std::byte> body = encode(record);
    if (body.size() > std::numeric_limits<std::uint32_t>::max()) {
      return unexpected(ErrorCode::invalid_argument,
                        fmt::format("ledger record of {} bytes: allowed below 4 GiB", body.size()));
    }
    segments.back().newest_step = std::max(segments.back().newest_step, step);
    unused_since.reset();
    const std::vector<std::byte> smaller = compressor.compress(body);
    return write_bytes(smaller.empty() ? detail::frame_record(kind, detail::Encoding::plain, body)
                                       : detail::frame_record(kind, detail::Encoding::zstd, smaller));
  }

  /// Writes a record under its key unless it is there or too late (LE-2, LE-4).
  template <class Record>
  Expected<AppendResult> write_once(const RecordKey& key, Fingerprint print, RecordKind kind, const Record& record) {
    const WrittenKeys::Found found = keys.find(key, print);
    switch (found.state) {
      case WrittenKeys::State::is_new:
        MEMOPD_RETURN_IF_ERROR(write_record(kind, key.id.step, record));
        keys.add(key, print);
        return AppendResult::written;
      case WrittenKeys::State::repeated:
        ++num_repeated;
        return AppendResult::repeated;
      case WrittenKeys::State::stale:
        ++num_stale;
        return AppendResult::stale;
      case WrittenKeys::State::differs:
        break;
    }
    return unexpected(
        ErrorCode::already_exists,
        fmt::format("ledger: {}: already written with other {} (found {:016x}{:016x}, there {:016x}{:016x})",
                    name_of(lineage, key), kind == RecordKind::invocation ? "token ids" : "content", print.first,
                    print.second, found.there.first, found.there.second));
  }

  /// Takes over what a record of an earlier writer says.
  void replay(const LedgerRecord& record, Segment& segment);
  Expected<void> recover(const RecordVisitor& visit);
  Expected<void> remove_oldest(std::size_t count);
};

namespace {

/// Where a record of an earlier writer belongs.
struct RecordStep {
  std::int32_t operator()(const InvocationRecord& record) const { return record.invocation.trajectory_id.step; }
  std::int32_t operator()(const TrajectoryRecord& record) const { return record.trajectory.id.step; }
  std::int32_t operator()(const StepRecord& record) const { return record.step; }
  std::int32_t operator()(const DroppedRecord& record) const { return record.trajectory_id.step; }
  std::int32_t operator()(const RolledBackRecord&) const { return -1; }
  std::int32_t operator()(const PrunedRecord&) const { return -1; }
};

}  // namespace

void LedgerWriter::State::replay(const LedgerRecord& record, Segment& segment) {
  const std::int32_t step = std::visit(RecordStep{}, record);
  segment.newest_step = std::max(segment.newest_step, step);
  unused_since.reset();
  ++recovery.num_records;
  const auto saw_training = [&](const TrajectoryId& id) {
    recovery.newest_step = id.split == kTrainSplit ? std::max(recovery.newest_step, step) : recovery.newest_step;
  };
  if (const auto* called = std::get_if<InvocationRecord>(&record)) {
    lineage = called->lineage;
    keys.add(key_of(called->invocation), detail::fingerprint(called->invocation));
    saw_training(called->invocation.trajectory_id);
  } else if (const auto* ended = std::get_if<TrajectoryRecord>(&record)) {
    lineage = ended->lineage;
    keys.add(key_of(ended->trajectory), detail::fingerprint(*ended));
    saw_training(ended->trajectory.id);
  } else if (const auto* closed = std::get_if<StepRecord>(&record)) {
    lineage = closed->lineage;
    keys.close_step(closed->step, closed->trajectories);
    recovery.newest_step = std::max(recovery.newest_step, step);
  } else if (const auto* dropped = std::get_if<DroppedRecord>(&record)) {
    lineage = dropped->lineage;
    keys.close(dropped->trajectory_id);
    saw_training(dropped->trajectory_id);
  } else if (const auto* back = std::get_if<RolledBackRecord>(&record)) {
    lineage = back->to_lineage;
    keys.roll_back(back->to_step);
    unused_since = back->to_step;
    recovery.newest_step = back->to_step - 1;
  }
}

Expected<void> LedgerWriter::State::recover(const RecordVisitor& visit) {
  const auto numbers = detail::segment_numbers(folder);
  if (!numbers) {
    return unexpected(numbers.error());
  }
  for (const std::int32_t number : *numbers) {
    const fs::path path = folder / detail::segment_name(number);
    detail::SegmentReader reader(path, number == numbers->back());
    Segment segment{number};
    while (true) {
      auto record = reader.next();
      if (!record) {
        return unexpected(record.error());
      }
      if (!*record) {
        break;
      }
      replay(**record, segment);
      if (visit) {
        MEMOPD_RETURN_IF_ERROR(visit(**std::move(record)));
      }
    }
    segment.size_bytes = reader.whole_bytes();
    recovery.torn_bytes = reader.torn_bytes();
    if (recovery.torn_bytes > 0 || segment.size_bytes == 0) {
      MEMOPD_RETURN_IF_ERROR(detail::cut_segment(path, segment.size_bytes));
      log_warning("ledger", "torn_end_cut", {{"segment", path.string()}, {"bytes", recovery.torn_bytes}});
    }
    if (segment.size_bytes > 0) {
      segments.push_back(segment);
    }
  }
  recovery.last_closed_step = keys.last_closed_step().value_or(-1);
  return begin_segment(segments.empty() ? numbers->front() : segments.back().number + 1);
}

Expected<void> LedgerWriter::State::remove_oldest(std::size_t count) {
  for (; count > 0; --count) {
    MEMOPD_RETURN_IF_ERROR(detail::cut_segment(folder / detail::segment_name(segments.front().number), 0));
    segments.erase(segments.begin());
  }
  return {};
}

LedgerWriter::LedgerWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
LedgerWriter::~LedgerWriter() = default;

Expected<std::unique_ptr<LedgerWriter>> LedgerWriter::create(const fs::path& folder, const LedgerOptions& options) {
  MEMOPD_RETURN_IF_ERROR(check(options));
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return unexpected(ErrorCode::io_error, fmt::format("ledger {}: {}", folder.string(), error.message()));
  }
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".ledger") {
      return unexpected(ErrorCode::already_exists,
                        fmt::format("ledger {}: holds {} already", folder.string(), entry.path().filename().string()));
    }
  }
  auto state = std::make_unique<State>(folder, options);
  MEMOPD_RETURN_IF_ERROR(state->begin_segment(0));
  return std::unique_ptr<LedgerWriter>(new LedgerWriter(std::move(state)));
}

Expected<std::unique_ptr<LedgerWriter>> LedgerWriter::open(const fs::path& folder, const LedgerOptions& options,
                                                           const RecordVisitor& visit) {
  MEMOPD_RETURN_IF_ERROR(check(options));
  auto state = std::make_unique<State>(folder, options);
  MEMOPD_RETURN_IF_ERROR(state->recover(visit));
  return std::unique_ptr<LedgerWriter>(new LedgerWriter(std::move(state)));
}

Expected<AppendResult> LedgerWriter::append(const Invocation& invocation) {
  const std::lock_guard lock(state_->mutex);
  return state_->write_once(key_of(invocation), detail::fingerprint(invocation), RecordKind::invocation,
                            InvocationRecord{state_->lineage, invocation});
}

Expected<AppendResult> LedgerWriter::append(const Trajectory& trajectory, std::int32_t num_invocations) {
  const std::lock_guard lock(state_->mutex);
  const TrajectoryRecord record{state_->lineage, num_invocations, without_invocations(trajectory)};
  return state_->write_once(key_of(trajectory), detail::fingerprint(record), RecordKind::trajectory, record);
}

Expected<void> LedgerWriter::append_step(std::int32_t step, std::int64_t policy_version,
                                         std::vector<TrajectoryId> trained) {
  const std::lock_guard lock(state_->mutex);
  if (const auto last = state_->keys.last_closed_step(); last && step <= *last) {
    return {};
  }
  const StepRecord record{state_->lineage, step, policy_version, std::move(trained)};
  MEMOPD_RETURN_IF_ERROR(state_->write_record(RecordKind::step, step, record));
  state_->keys.close_step(step, record.trajectories);
  if (++state_->steps_in_segment >= state_->options.steps_per_segment) {
    return state_->begin_segment(state_->segments.back().number + 1);
  }
  return {};
}

Expected<void> LedgerWriter::append_dropped(const TrajectoryId& id, std::int32_t attempt, std::string reason) {
  const std::lock_guard lock(state_->mutex);
  if (state_->keys.is_closed(id)) {
    return {};
  }
  const DroppedRecord record{state_->lineage, id, attempt, std::move(reason)};
  MEMOPD_RETURN_IF_ERROR(state_->write_record(RecordKind::dropped, id.step, record));
  state_->keys.close(id);
  return {};
}

Expected<void> LedgerWriter::append_rolled_back(std::int32_t from_step, std::int32_t to_step) {
  const std::lock_guard lock(state_->mutex);
  if (state_->unused_since == to_step) {
    return {};
  }
  const RolledBackRecord record{state_->lineage, state_->lineage + 1, from_step, to_step};
  MEMOPD_RETURN_IF_ERROR(state_->write_record(RecordKind::rolled_back, -1, record));
  ++state_->lineage;
  state_->keys.roll_back(to_step);
  state_->unused_since = to_step;
  return {};
}

Expected<void> LedgerWriter::sync() {
  const std::lock_guard lock(state_->mutex);
  if (state_->broken) {
    return unexpected(*state_->broken);
  }
  return state_->note(state_->file->sync());
}

Expected<std::int32_t> LedgerWriter::prune(std::int32_t keep_steps) {
  if (keep_steps < 1) {
    return unexpected(ErrorCode::invalid_argument,
                      fmt::format("ledger: keep_steps: found {}, allowed >= 1", keep_steps));
  }
  const std::lock_guard lock(state_->mutex);
  const std::vector<Segment>& segments = state_->segments;
  const std::optional<std::int32_t> last = state_->keys.last_closed_step();
  std::size_t count = 0;
  std::int32_t newest = -1;
  const std::int32_t kept = std::max(keep_steps, state_->options.remembered_steps);
  while (last && count + 1 < segments.size() && segments[count].newest_step < *last - kept) {
    newest = std::max(newest, segments[count++].newest_step);
  }
  if (count == 0) {
    return 0;
  }
  // First the statement that they may be gone, then they go: a crash in between leaves a true ledger.
  const PrunedRecord record{state_->lineage, segments[count].number, newest + 1};
  MEMOPD_RETURN_IF_ERROR(state_->write_record(RecordKind::pruned, -1, record));
  MEMOPD_RETURN_IF_ERROR(state_->note(state_->file->sync()));
  MEMOPD_RETURN_IF_ERROR(state_->remove_oldest(count));
  return static_cast<std::int32_t>(count);
}

const LedgerRecovery& LedgerWriter::recovery() const { return state_->recovery; }

std::int64_t LedgerWriter::lineage() const {
  const std::lock_guard lock(state_->mutex);
  return state_->lineage;
}

std::int64_t LedgerWriter::num_repeated() const {
  const std::lock_guard lock(state_->mutex);
  return state_->num_repeated;
}

std::int64_t LedgerWriter::num_stale() const {
  const std::lock_guard lock(state_->mutex);
  return state_->num_stale;
}

std::int64_t LedgerWriter::size_bytes() const {
  const std::lock_guard lock(state_->mutex);
  std::int64_t bytes = 0;
  for (const Segment& segment : state_->segments) {
    bytes += segment.size_bytes;
  }
  return bytes;
}

}  // namespace memopd

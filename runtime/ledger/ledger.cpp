#include "runtime/ledger/ledger.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <array>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <system_error>
#include <tuple>
#include <utility>

#include "runtime/ledger/record_format.hpp"
#include "runtime/ledger/segment_file.hpp"

namespace memopd {
namespace {

using Fingerprint = std::pair<std::uint64_t, std::uint64_t>;
/// Lineage, trajectory, attempt, invocation; the trajectory record itself stands at invocation -1.
using Key = std::tuple<std::int64_t, TrajectoryId, std::int32_t, std::int32_t>;

constexpr std::int32_t kTrajectoryItself = -1;

Fingerprint fingerprint(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

/// Of the ids alone: timings of a repeated delivery may differ, what was fed and sampled may not.
Fingerprint fingerprint_ids(const Invocation& invocation) {
  const auto prompt = fingerprint(std::as_bytes(std::span(invocation.prompt_token_ids)));
  const auto response = fingerprint(std::as_bytes(std::span(invocation.response_token_ids)));
  const std::array<std::uint64_t, 4> both = {prompt.first, prompt.second, response.first, response.second};
  return fingerprint(std::as_bytes(std::span(both)));
}

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

std::string name_of(const Key& key) {
  const auto& [lineage, id, attempt, invocation] = key;
  std::string name = fmt::format("lineage {}, trajectory {}, attempt {}", lineage, to_string(id), attempt);
  return invocation == kTrajectoryItself ? name : name + fmt::format(", invocation {}", invocation);
}

}  // namespace

struct LedgerWriter::State {
  std::filesystem::path folder;
  LedgerOptions options;
  std::unique_ptr<detail::SegmentFile> segment;
  std::int32_t num_segments = 0;
  std::int32_t steps_in_segment = 0;
  std::map<Key, Fingerprint> seen;
  std::int64_t num_repeated = 0;
  std::int64_t size_bytes = 0;
  std::optional<Error> broken;  ///< the write that failed; nothing may follow a record that is not whole
  mutable std::mutex mutex;

  Expected<void> note(Expected<void> result) {
    if (!result) {
      broken = result.error();
    }
    return result;
  }

  Expected<void> write_bytes(std::span<const std::byte> bytes) {
    if (broken) {
      return unexpected(broken->code, broken->message);
    }
    size_bytes += static_cast<std::int64_t>(bytes.size());
    return note(segment->append(bytes));
  }

  Expected<void> open_segment() {
    if (segment) {
      MEMOPD_RETURN_IF_ERROR(note(segment->sync()));
    }
    auto opened = detail::SegmentFile::create(folder / detail::segment_name(num_segments));
    if (!opened) {
      return note(unexpected(opened.error()));
    }
    segment = std::move(*opened);
    ++num_segments;
    steps_in_segment = 0;
    return write_bytes(detail::segment_header());
  }

  template <class Record>
  Expected<void> write_record(RecordKind kind, const Record& record) {
    const std::vector<std::byte> body = encode(record);
    if (body.size() > std::numeric_limits<std::uint32_t>::max()) {
      return unexpected(ErrorCode::invalid_argument,
                        fmt::format("ledger record of {} bytes: allowed below 4 GiB", body.size()));
    }
    return write_bytes(detail::frame_record(kind, body));
  }

  /// Writes a record under its key unless it is there (LE-2).
  template <class Record>
  Expected<AppendResult> write_once(const Key& key, Fingerprint print, RecordKind kind, const Record& record) {
    const auto found = seen.find(key);
    if (found == seen.end()) {
      MEMOPD_RETURN_IF_ERROR(write_record(kind, record));
      seen.emplace(key, print);
      return AppendResult::written;
    }
    if (found->second == print) {
      ++num_repeated;
      return AppendResult::repeated;
    }
    return unexpected(
        ErrorCode::already_exists,
        fmt::format("ledger: {}: already written with other {} (found {:016x}{:016x}, there {:016x}{:016x})",
                    name_of(key), kind == RecordKind::invocation ? "token ids" : "content", print.first, print.second,
                    found->second.first, found->second.second));
  }
};

LedgerWriter::LedgerWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
LedgerWriter::~LedgerWriter() = default;

Expected<std::unique_ptr<LedgerWriter>> LedgerWriter::create(const std::filesystem::path& folder,
                                                             const LedgerOptions& options) {
  if (options.steps_per_segment < 1) {
    return unexpected(ErrorCode::invalid_argument,
                      fmt::format("ledger: steps_per_segment: found {}, allowed >= 1", options.steps_per_segment));
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return unexpected(ErrorCode::io_error, fmt::format("ledger {}: {}", folder.string(), error.message()));
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".ledger") {
      return unexpected(ErrorCode::already_exists,
                        fmt::format("ledger {}: holds {} already", folder.string(), entry.path().filename().string()));
    }
  }
  auto state = std::make_unique<State>();
  state->folder = folder;
  state->options = options;
  MEMOPD_RETURN_IF_ERROR(state->open_segment());
  return std::unique_ptr<LedgerWriter>(new LedgerWriter(std::move(state)));
}

Expected<AppendResult> LedgerWriter::append(const Invocation& invocation) {
  const std::lock_guard lock(state_->mutex);
  const std::int64_t lineage = state_->options.lineage;
  const Key key{lineage, invocation.trajectory_id, invocation.attempt, invocation.invocation_index};
  return state_->write_once(key, fingerprint_ids(invocation), RecordKind::invocation,
                            InvocationRecord{lineage, invocation});
}

Expected<AppendResult> LedgerWriter::append(const Trajectory& trajectory) {
  const std::lock_guard lock(state_->mutex);
  const std::int64_t lineage = state_->options.lineage;
  const TrajectoryRecord record{lineage, static_cast<std::int32_t>(trajectory.invocations.size()),
                                without_invocations(trajectory)};
  TrajectoryRecord content = record;
  content.trajectory.metrics.clear();  // may hold durations, which differ between deliveries
  return state_->write_once({lineage, trajectory.id, trajectory.attempt, kTrajectoryItself},
                            fingerprint(encode(content)), RecordKind::trajectory, record);
}

Expected<void> LedgerWriter::append_step(std::int32_t step, std::int64_t policy_version,
                                         std::vector<TrajectoryId> trajectories) {
  const std::lock_guard lock(state_->mutex);
  const StepRecord record{state_->options.lineage, step, policy_version, std::move(trajectories)};
  MEMOPD_RETURN_IF_ERROR(state_->write_record(RecordKind::step, record));
  if (++state_->steps_in_segment >= state_->options.steps_per_segment) {
    return state_->open_segment();
  }
  return {};
}

Expected<void> LedgerWriter::append_dropped(const TrajectoryId& id, std::int32_t attempt, std::string reason) {
  const std::lock_guard lock(state_->mutex);
  return state_->write_record(RecordKind::dropped,
                              DroppedRecord{state_->options.lineage, id, attempt, std::move(reason)});
}

Expected<void> LedgerWriter::append_rolled_back(std::int32_t from_step, std::int32_t to_step) {
  const std::lock_guard lock(state_->mutex);
  const std::int64_t lineage = state_->options.lineage;
  MEMOPD_RETURN_IF_ERROR(
      state_->write_record(RecordKind::rolled_back, RolledBackRecord{lineage, lineage + 1, from_step, to_step}));
  ++state_->options.lineage;
  return {};
}

Expected<void> LedgerWriter::sync() {
  const std::lock_guard lock(state_->mutex);
  if (state_->broken) {
    return unexpected(*state_->broken);
  }
  return state_->note(state_->segment->sync());
}

std::int64_t LedgerWriter::lineage() const {
  const std::lock_guard lock(state_->mutex);
  return state_->options.lineage;
}

std::int64_t LedgerWriter::num_repeated() const {
  const std::lock_guard lock(state_->mutex);
  return state_->num_repeated;
}

std::int64_t LedgerWriter::size_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->size_bytes;
}

}  // namespace memopd

// Which records a ledger holds, for as long as a repeat of them may come (LE-2, LE-4). Internal to this folder.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "runtime/ledger/ledger.hpp"

namespace memopd::detail {

/// 128 bits of what a repeat must have in common with the first.
using Fingerprint = std::pair<std::uint64_t, std::uint64_t>;

/// Of the ids alone: timings of a repeated delivery may differ, what was fed and sampled may not.
[[nodiscard]] Fingerprint fingerprint(const Invocation& invocation);
/// Of all but the metrics, which may hold durations.
[[nodiscard]] Fingerprint fingerprint(const TrajectoryRecord& record);

/// A record within its lineage.
struct RecordKey {
  TrajectoryId id;
  std::int32_t attempt = 0;
  std::int32_t invocation_index = 0;  ///< -1: the trajectory record itself

  static constexpr std::int32_t kTrajectoryItself = -1;
};

/// The keys of the current lineage. Not thread-safe. Memory: the trajectories of the steps since
/// last_closed_step - remembered_steps.
class WrittenKeys {
 public:
  enum class State : std::uint8_t { is_new, repeated, differs, stale };
  struct Found {
    State state = State::is_new;
    Fingerprint there{};  ///< of the record that is there, when it differs
  };

  explicit WrittenKeys(std::int32_t remembered_steps) : remembered_steps_(remembered_steps) {}

  [[nodiscard]] Found find(const RecordKey& key, Fingerprint print) const;
  void add(const RecordKey& key, Fingerprint print);
  [[nodiscard]] bool is_closed(const TrajectoryId& id) const;
  /// No new record of this trajectory is taken from now on.
  void close(const TrajectoryId& id);
  /// Closes what was trained and forgets what is older than the remembered steps.
  void close_step(std::int32_t step, std::span<const TrajectoryId> trained);
  /// A new lineage, whose next step is `to_step`: every key is new.
  void roll_back(std::int32_t to_step);

  [[nodiscard]] std::optional<std::int32_t> last_closed_step() const { return last_closed_step_; }

 private:
  struct Known {
    std::map<std::pair<std::int32_t, std::int32_t>, Fingerprint> prints;  ///< by attempt and invocation_index
    bool is_closed = false;
  };
  [[nodiscard]] bool is_forgotten(std::int32_t step) const;

  std::int32_t remembered_steps_;
  std::optional<std::int32_t> last_closed_step_;
  std::map<std::int32_t, std::map<TrajectoryId, Known>> by_step_;  ///< by the step that dispatched the trajectory
};

}  // namespace memopd::detail

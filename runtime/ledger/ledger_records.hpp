// The records of a ledger.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/data/invocation.hpp"
#include "runtime/data/trajectory.hpp"

namespace memopd {

/// Kinds of records; the numbers are on disk.
enum class RecordKind : std::uint8_t {
  invocation = 1,
  trajectory = 2,
  step = 3,
  dropped = 4,
  rolled_back = 5,
  pruned = 6,
};

/// An Invocation and the lineage it was sampled in.
struct InvocationRecord {
  std::int64_t lineage = 0;
  Invocation invocation{};
};

/// A Trajectory without its invocations, which have their own records; of its attempts the highest counts.
struct TrajectoryRecord {
  std::int64_t lineage = 0;
  std::int32_t num_invocations = 0;
  Trajectory trajectory{};
};

/// A closed step and what was trained in it.
struct StepRecord {
  std::int64_t lineage = 0;
  std::int32_t step = 0;
  std::int64_t policy_version = 0;           ///< the learner's when it was closed; lag is counted from it (RL-3)
  std::vector<TrajectoryId> trajectories{};  ///< trained, in id order
};

/// A trajectory that is not trained on.
struct DroppedRecord {
  std::int64_t lineage = 0;
  TrajectoryId trajectory_id{};
  std::int32_t attempt = 0;
  std::string reason{};  ///< a status name, "empty", ..
};

/// The weights went back: records of steps >= to_step before this one do not count; what follows belongs to to_lineage.
struct RolledBackRecord {
  std::int64_t from_lineage = 0;
  std::int64_t to_lineage = 0;
  std::int32_t from_step = 0;  ///< the step that was next, or in progress
  std::int32_t to_step = 0;    ///< the step that is next now
};

/// Segments before `first_segment` were deleted.
struct PrunedRecord {
  std::int64_t lineage = 0;
  std::int32_t first_segment = 0;
  std::int32_t complete_from_step = 0;  ///< every record of this step and later ones is still there
};

using LedgerRecord =
    std::variant<InvocationRecord, TrajectoryRecord, StepRecord, DroppedRecord, RolledBackRecord, PrunedRecord>;

/// Takes a record; an error ends the reading.
using RecordVisitor = std::function<Expected<void>(LedgerRecord record)>;

}  // namespace memopd

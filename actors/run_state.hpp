// What a coordinator must know to go on from a checkpoint: kept in the checkpoint's state.json under "run".
//
// CL-3 resume  tasks, seeds and schedules are functions of (run.seed, step); with this state, the learner's part of the
//              checkpoint and the configuration, the run goes on as if it had never stopped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/checkpoint_keeper.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/telemetry/summary.hpp"

namespace memopd {

struct RunState {
  std::int32_t step = 0;            ///< steps trained
  std::int64_t policy_version = 0;  ///< of the weights beside it
  std::int64_t lineage = 0;
  Summary summary;  ///< counts, durations and evaluations so far
  std::optional<CheckpointKeeper::Best> best;
  std::map<std::string, std::vector<double>> first_values;  ///< of AlarmWatch
};

/// A JSON object.
[[nodiscard]] std::string to_json(const RunState& state);

/// Reads "run" of `checkpoint`/state.json.
/// @error not_found, io_error, parse_error; all name the file
[[nodiscard]] Expected<RunState> load_run_state(const std::filesystem::path& checkpoint);

}  // namespace memopd

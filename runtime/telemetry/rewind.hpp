// The curve and text files of a run that goes back to an earlier step.
#pragma once

#include <cstdint>
#include <filesystem>

#include "runtime/base/expected.hpp"

namespace memopd {

/// Takes back what a run will say again when it goes on from the checkpoint of `step`, so that its files read like those
/// of a run that never stopped: metrics.jsonl loses records of later steps and evaluations of `step` itself (they come
/// after the checkpoint); trajectories/<split>-<n>.jsonl are deleted for training steps n >= `step` and for evaluations
/// at n >= `step`. Step 0 was evaluated before the first step and stays; a negative `step` takes back everything.
/// The ledger is not touched: it records the rollback. A torn last line of metrics.jsonl goes as well.
/// @error io_error  names the file
[[nodiscard]] Expected<void> rewind_run_files(const std::filesystem::path& run_folder, std::int32_t step);

}  // namespace memopd

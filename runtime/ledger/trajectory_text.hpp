// The text view of the ledger: one JSON line per trajectory, for people and scripts. Never read back by a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/expected.hpp"
#include "runtime/data/trajectory.hpp"

namespace memopd {

/// "stop", "eos", "length", "aborted"
[[nodiscard]] std::string_view to_string(FinishReason reason);

/// The text of one invocation, as the caller decoded it.
struct CallText {
  std::string prompt;
  std::string response;
};

/// One JSON object without line break: trajectory_id, attempt, task_id, env, status, answer, rewards, metrics, and
/// calls[{prompt, response, prompt_tokens, response_tokens, finish_reason, reward}]. Bytes that are not UTF-8 show as U+FFFD.
/// @error invalid_argument  as many texts as invocations are needed
[[nodiscard]] Expected<std::string> trajectory_line(const Trajectory& trajectory, std::span<const CallText> calls);

/// Appends to `folder`/<split>-<step>.jsonl. Thread-safe.
class TrajectoryTextWriter {
 public:
  /// @error io_error
  [[nodiscard]] static Expected<std::unique_ptr<TrajectoryTextWriter>> create(const std::filesystem::path& folder);
  ~TrajectoryTextWriter();
  TrajectoryTextWriter(const TrajectoryTextWriter&) = delete;
  TrajectoryTextWriter& operator=(const TrajectoryTextWriter&) = delete;

  /// Writes and flushes one line.
  /// @error invalid_argument, io_error
  Expected<void> append(const Trajectory& trajectory, std::span<const CallText> calls);
  /// The same after a crash: cuts off a line that never became whole, and writes nothing when this attempt has its line.
  /// @error invalid_argument, io_error
  Expected<void> append_if_missing(const Trajectory& trajectory, std::span<const CallText> calls);
  /// Closes its file, so that somebody else may delete it.
  void close();

 private:
  struct State;
  explicit TrajectoryTextWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace memopd

// What a person at the terminal sees of a run: its events as lines, its steps as progress.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/base/log.hpp"
#include "runtime/telemetry/progress.hpp"

namespace memopd {

/// Exit codes of both programs.
enum ExitCode : int { kExitOk = 0, kExitRunFailed = 1, kExitUsage = 2, kExitInfeasible = 3, kExitHostCheck = 4 };

/// Thread-safe as a log sink.
class Console {
 public:
  /// @param num_steps  of the run; >= 1
  explicit Console(std::int64_t num_steps);

  /// A sink that shows step_done, evaluated and checkpoint_saved events, and warnings and errors.
  [[nodiscard]] LogSink sink();
  void note(const std::string& text);

 private:
  void show(const LogEvent& event);

  std::mutex mutex_;
  ProgressDisplay display_;
};

/// Prints `message`, one line each behind "memopd: ", to stderr. @return `code`
int report_error(const std::string& message, int code);

}  // namespace memopd

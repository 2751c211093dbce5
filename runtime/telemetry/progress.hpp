// What a person watches: step, reward, F1, tokens per second, elapsed, time left. Reads no clock; callers give seconds.
//
//   step 12/50 | reward 0.412 | f1 0.436 | 3,120 tok/s | 1m42s | eta 5m23s
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

namespace memopd {

struct ProgressState {
  std::int64_t step = 0;
  std::int64_t num_steps = 0;
  std::optional<double> reward;        ///< mean of the step
  std::optional<double> f1;            ///< mean of the step, [0, 1]
  std::optional<double> tokens_per_s;  ///< sampled tokens per second of the whole step
  double elapsed_s = 0;
  std::optional<double> eta_s;
};

/// "0.4s", "42s", "1m02s", "3h07m", "2d04h".
[[nodiscard]] std::string format_duration(double seconds);

/// One line without line break; absent numbers are left out. Pure.
[[nodiscard]] std::string format_progress(const ProgressState& state);

/// Time left from an exponential average of step durations. Not thread-safe.
class EtaEstimator {
 public:
  /// @param weight  of the newest step, (0, 1]
  explicit EtaEstimator(double weight = 0.2) : weight_(weight) {}
  /// @param step_s  how long one step took; >= 0
  void step_done(double step_s);
  /// @return seconds for `remaining_steps`; nothing before the first step
  [[nodiscard]] std::optional<double> remaining_s(std::int64_t remaining_steps) const;

 private:
  double weight_;
  std::optional<double> average_s_;
};

/// Whether `file_descriptor` is a terminal.
[[nodiscard]] bool is_terminal(int file_descriptor);

/// Shows progress on a stream: one rewritten line on a terminal, one line per step elsewhere. Not thread-safe.
class ProgressDisplay {
 public:
  /// @param num_steps  of the run; >= 1
  /// `out` must outlive this object.
  ProgressDisplay(std::ostream& out, bool is_terminal, std::int64_t num_steps);
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  /// A step ended `elapsed_s` seconds after the run began; eta_s and num_steps are filled in here.
  void step_done(ProgressState state);
  /// A line of its own that stays, as "evaluating val (200 tasks)".
  void note(std::string_view text);
  /// Ends the rewritten line. Called by the destructor.
  void finish();

 private:
  void erase_line();

  std::ostream& out_;
  bool is_terminal_;
  std::int64_t num_steps_;
  EtaEstimator eta_;
  double last_elapsed_s_ = 0;
  std::size_t shown_width_ = 0;
};

}  // namespace memopd

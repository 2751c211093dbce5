#include "runtime/telemetry/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <utility>

namespace memopd {
namespace {

std::string group_thousands(double value) {
  const std::string digits = fmt::format("{}", std::llround(value));
  std::string grouped;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) {
      grouped += ',';
    }
    grouped += digits[i];
  }
  return grouped;
}

}  // namespace

std::string format_duration(double seconds) {
  if (!(seconds >= 0) || seconds > 1e12) {
    return "?";
  }
  if (seconds < 9.95) {
    return fmt::format("{:.1f}s", seconds);
  }
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  constexpr std::int64_t kMinute = 60;
  constexpr std::int64_t kHour = 60 * kMinute;
  constexpr std::int64_t kDay = 24 * kHour;
  if (whole < kMinute) {
    return fmt::format("{}s", whole);
  }
  if (whole < kHour) {
    return fmt::format("{}m{:02}s", whole / kMinute, whole % kMinute);
  }
  if (whole < kDay) {
    return fmt::format("{}h{:02}m", whole / kHour, whole % kHour / kMinute);
  }
  return fmt::format("{}d{:02}h", whole / kDay, whole % kDay / kHour);
}

std::string format_progress(const ProgressState& state) {
  std::string line = fmt::format("step {}/{}", state.step, state.num_steps);
  if (state.reward) {
    line += fmt::format(" | reward {:.3f}", *state.reward);
  }
  if (state.f1) {
    line += fmt::format(" | f1 {:.3f}", *state.f1);
  }
  if (state.tokens_per_s && std::isfinite(*state.tokens_per_s)) {
    line += fmt::format(" | {} tok/s", group_thousands(*state.tokens_per_s));
  }
  line += fmt::format(" | {}", format_duration(state.elapsed_s));
  if (state.eta_s) {
    line += fmt::format(" | eta {}", format_duration(*state.eta_s));
  }
  return line;
}

void EtaEstimator::step_done(double step_s) {
  average_s_ = average_s_ ? *average_s_ + weight_ * (step_s - *average_s_) : step_s;
}

std::optional<double> EtaEstimator::remaining_s(std::int64_t remaining_steps) const {
  if (!average_s_) {
    return std::nullopt;
  }
  return *average_s_ * static_cast<double>(remaining_steps);
}

bool is_terminal(int file_descriptor) { return isatty(file_descriptor) == 1; }

ProgressDisplay::ProgressDisplay(std::ostream& out, bool on_terminal, std::int64_t num_steps)
    : out_(out), is_terminal_(on_terminal), num_steps_(num_steps) {}

ProgressDisplay::~ProgressDisplay() { finish(); }

void ProgressDisplay::step_done(ProgressState state) {
  eta_.step_done(std::max(0.0, state.elapsed_s - last_elapsed_s_));
  last_elapsed_s_ = state.elapsed_s;
  state.num_steps = num_steps_;
  state.eta_s = eta_.remaining_s(std::max<std::int64_t>(0, num_steps_ - state.step));
  const std::string line = format_progress(state);
  if (!is_terminal_) {
    out_ << line << '\n' << std::flush;
    return;
  }
  out_ << '\r' << line << std::string(shown_width_ > line.size() ? shown_width_ - line.size() : 0, ' ') << std::flush;
  shown_width_ = line.size();
}

void ProgressDisplay::note(std::string_view text) {
  erase_line();
  out_ << text << '\n' << std::flush;
}

void ProgressDisplay::finish() {
  if (shown_width_ > 0) {
    out_ << '\n' << std::flush;
    shown_width_ = 0;
  }
}

void ProgressDisplay::erase_line() {
  if (shown_width_ > 0) {
    out_ << '\r' << std::string(shown_width_, ' ') << '\r';
    shown_width_ = 0;
  }
}

}  // namespace memopd

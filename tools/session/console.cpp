#include "tools/session/console.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <sstream>

namespace memopd {
namespace {

std::string field(const LogEvent& event, std::string_view key) {
  for (const LogField& candidate : event.fields) {
    if (candidate.key == key) {
      return candidate.value;
    }
  }
  return {};
}

std::optional<double> number(const LogEvent& event, std::string_view key) {
  const std::string text = field(event, key);
  return text.empty() ? std::nullopt : std::optional<double>(std::strtod(text.c_str(), nullptr));
}

ProgressState progress_of(const LogEvent& event) {
  ProgressState state;
  state.step = static_cast<std::int64_t>(number(event, "step").value_or(0));
  state.reward = number(event, "reward");
  state.f1 = number(event, "f1");
  state.tokens_per_s = number(event, "tokens_per_s");
  state.elapsed_s = number(event, "elapsed_s").value_or(0);
  return state;
}

}  // namespace

Console::Console(std::int64_t num_steps) : display_(std::cout, is_terminal(STDOUT_FILENO), num_steps) {}

LogSink Console::sink() {
  return [this](const LogEvent& event) { show(event); };
}

void Console::note(const std::string& text) {
  const std::lock_guard lock(mutex_);
  display_.note(text);
}

void Console::show(const LogEvent& event) {
  const std::lock_guard lock(mutex_);
  if (event.name == "step_done") {
    display_.step_done(progress_of(event));
  } else if (event.name == "evaluation_began") {
    display_.note(fmt::format("evaluating {} tasks", field(event, "tasks")));
  } else if (event.name == "evaluated") {
    display_.note(fmt::format("step {}: {} {} {:.3f} [{:.3f}, {:.3f}]", field(event, "step"), field(event, "student"),
                              field(event, "name"), number(event, "f1").value_or(0), number(event, "low").value_or(0),
                              number(event, "high").value_or(0)));
  } else if (event.name == "checkpoint_saved") {
    display_.note("checkpoint " + field(event, "folder"));
  } else if (event.level >= LogLevel::warning) {
    display_.note(to_string(event));
  }
}

int report_error(const std::string& message, int code) {
  std::istringstream lines(message);
  for (std::string line; std::getline(lines, line);) {
    std::fprintf(stderr, "memopd: %s\n", line.c_str());
  }
  return code;
}

}  // namespace memopd

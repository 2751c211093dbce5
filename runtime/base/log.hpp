// Structured events: one line each, stable names, ids always. Libraries log; they never print.
//
//   log_info("learner", "step_done", {{"step", 12}, {"loss", 0.31}});
//   -> 2026-11-30T12:00:00.123Z info learner step_done step=12 loss=0.31
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace memopd {

enum class LogLevel : std::uint8_t { debug, info, warning, error };

[[nodiscard]] std::string_view to_string(LogLevel level);

/// One key and its printed value.
struct LogField {
  template <class T>
  LogField(std::string_view field_key, const T& field_value) : key(field_key), value(print(field_value)) {}

  std::string key;
  std::string value;

 private:
  template <class T>
  static std::string print(const T& v) {
    if constexpr (std::is_same_v<T, bool>) {
      return v ? "true" : "false";
    } else if constexpr (std::is_floating_point_v<T>) {
      return print_double(static_cast<double>(v));
    } else if constexpr (std::is_arithmetic_v<T>) {
      return std::to_string(v);
    } else {
      return std::string(v);
    }
  }
  static std::string print_double(double v);
};

struct LogEvent {
  std::int64_t unix_time_ms = 0;
  LogLevel level = LogLevel::info;
  std::string component;
  std::string name;
  std::vector<LogField> fields;
};

/// `time level component name key=value ..`; values with spaces or quotes are quoted and escaped, so one event is one line.
[[nodiscard]] std::string to_string(const LogEvent& event);

using LogSink = std::function<void(const LogEvent&)>;

/// Replaces the sink of the process (default: warnings and errors to stderr). Thread-safe; calls of a sink never overlap.
void set_log_sink(LogSink sink);

/// Passes on an event that another process logged.
void log_event(const LogEvent& event);

void log(LogLevel level, std::string_view component, std::string_view name,
         std::initializer_list<LogField> fields = {});
inline void log_debug(std::string_view component, std::string_view name, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::debug, component, name, fields);
}
inline void log_info(std::string_view component, std::string_view name, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::info, component, name, fields);
}
inline void log_warning(std::string_view component, std::string_view name,
                        std::initializer_list<LogField> fields = {}) {
  log(LogLevel::warning, component, name, fields);
}
inline void log_error(std::string_view component, std::string_view name, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::error, component, name, fields);
}

}  // namespace memopd

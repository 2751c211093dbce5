#include "runtime/base/log.hpp"

#include <chrono>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <utility>

namespace memopd {
namespace {

void print_to_stderr(const LogEvent& event) {
  if (event.level >= LogLevel::warning) {
    std::fprintf(stderr, "%s\n", to_string(event).c_str());
  }
}

struct SinkHolder {
  std::mutex mutex;
  LogSink sink = print_to_stderr;
};

SinkHolder& holder() {
  static SinkHolder instance;
  return instance;
}

std::string quote_if_needed(const std::string& text) {
  if (!text.empty() && text.find_first_of(" \"\n\r\t=") == std::string::npos) {
    return text;
  }
  std::string quoted = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        quoted += "\\\"";
        break;
      case '\\':
        quoted += "\\\\";
        break;
      case '\n':
        quoted += "\\n";
        break;
      case '\r':
        quoted += "\\r";
        break;
      case '\t':
        quoted += "\\t";
        break;
      default:
        quoted += c;
    }
  }
  return quoted + "\"";
}

std::string format_time(std::int64_t unix_time_ms) {
  const std::time_t seconds = static_cast<std::time_t>(unix_time_ms / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[40];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  char fraction[16];
  std::snprintf(fraction, sizeof fraction, ".%03dZ", static_cast<int>(unix_time_ms % 1000));
  return std::string(text, length) + fraction;
}

}  // namespace

std::string LogField::print_double(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", v);
  return text;
}

std::string_view to_string(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warning:
      return "warning";
    case LogLevel::error:
      return "error";
  }
  return "unknown";
}

std::string to_string(const LogEvent& event) {
  std::string line = format_time(event.unix_time_ms);
  line.append(" ").append(to_string(event.level)).append(" ").append(event.component).append(" ").append(event.name);
  for (const LogField& field : event.fields) {
    line.append(" ").append(field.key).append("=").append(quote_if_needed(field.value));
  }
  return line;
}

void set_log_sink(LogSink sink) {
  const std::lock_guard lock(holder().mutex);
  holder().sink = sink ? std::move(sink) : LogSink(print_to_stderr);
}

void log_event(const LogEvent& event) {
  const std::lock_guard lock(holder().mutex);
  holder().sink(event);
}

void log(LogLevel level, std::string_view component, std::string_view name, std::initializer_list<LogField> fields) {
  using namespace std::chrono;
  LogEvent event;
  event.unix_time_ms = duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
  event.level = level;
  event.component = component;
  event.name = name;
  event.fields.assign(fields.begin(), fields.end());
  log_event(event);
}

}  // namespace memopd

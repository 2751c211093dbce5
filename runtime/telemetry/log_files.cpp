#include "runtime/telemetry/log_files.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

namespace memopd::detail {
namespace {

void write_line(std::FILE* file, const std::string& line) {
  if (file != nullptr) {
    std::fwrite(line.data(), 1, line.size(), file);
    std::fflush(file);
  }
}

}  // namespace

std::string event_line(const LogEvent& event) {
  nlohmann::ordered_json json = {{"time", static_cast<double>(event.unix_time_ms) / 1000},
                                 {"level", to_string(event.level)},
                                 {"component", event.component},
                                 {"name", event.name}};
  for (const LogField& field : event.fields) {
    json["fields"][field.key] = field.value;
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string log_file_name(std::string_view component) {
  const auto slash = component.find('/');
  std::string name(component);
  if (slash == std::string_view::npos) {
    name += "-0";
  } else {
    name[slash] = '-';
  }
  for (char& c : name) {
    const bool is_plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    c = is_plain ? c : '_';
  }
  return name + ".log";
}

Expected<std::unique_ptr<LogFiles>> LogFiles::open(const std::filesystem::path& run_folder) {
  const auto path = run_folder / "events.jsonl";
  File events(std::fopen(path.c_str(), "ab"), &std::fclose);
  if (!events) {
    return unexpected(ErrorCode::io_error, fmt::format("events file {}: {}", path.string(), std::strerror(errno)));
  }
  return std::unique_ptr<LogFiles>(new LogFiles(run_folder / "logs", std::move(events)));
}

void LogFiles::write(const LogEvent& event) {
  if (event.level >= LogLevel::info) {
    write_line(events_.get(), event_line(event));
  }
  write_line(log_of(event.component), to_string(event) + "\n");
}

std::FILE* LogFiles::log_of(const std::string& component) {
  const std::string name = log_file_name(component);
  auto found = logs_.find(name);
  if (found == logs_.end()) {
    File file(
        std::fopen((folder_ / name).c_str(), "ab"), +[](std::FILE* f) { return f != nullptr ? std::fclose(f) : 0; });
    found = logs_.emplace(name, std::move(file)).first;
  }
  return found->second.get();
}

}  // namespace memopd::detail

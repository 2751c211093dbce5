// The files behind the log of a run. Internal to this folder.
#pragma once

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/expected.hpp"
#include "runtime/base/log.hpp"

namespace memopd::detail {

/// {"time":..,"level":"info","component":"learner","name":"step_done","fields":{"step":"12"}}: one line of events.jsonl.
[[nodiscard]] std::string event_line(const LogEvent& event);

/// "env/3" -> "env-3.log", "learner" -> "learner-0.log"; anything but letters, digits, - and _ becomes _.
[[nodiscard]] std::string log_file_name(std::string_view component);

/// events.jsonl and logs/ of one run. Not thread-safe: calls of a log sink never overlap.
class LogFiles {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<LogFiles>> open(const std::filesystem::path& run_folder);
  void write(const LogEvent& event);

 private:
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
  LogFiles(std::filesystem::path folder, File events) : folder_(std::move(folder)), events_(std::move(events)) {}
  std::FILE* log_of(const std::string& component);

  std::filesystem::path folder_;
  File events_;
  std::map<std::string, File> logs_;
};

}  // namespace memopd::detail

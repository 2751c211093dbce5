#include "tools/memopd_cluster/logs.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/telemetry/metrics.hpp"
#include "runtime/telemetry/progress.hpp"
#include "tools/memopd_cluster/run_view.hpp"
#include "tools/session/console.hpp"

namespace memopd {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxLineBytes = 64 * 1024;
constexpr std::size_t kTimeLength = 24;  // 2026-11-30T12:00:00.123Z
constexpr std::chrono::milliseconds kPollEvery{200};

/// "env-3.log" -> "env/3"; the number is behind the last dash.
std::string role_of(const fs::path& path) {
  std::string name = path.stem().string();
  const auto dash = name.rfind('-');
  if (dash != std::string::npos && dash + 1 < name.size()) {
    name[dash] = '/';
  }
  return name;
}

bool is_time(std::string_view text) {
  constexpr std::string_view kPattern = "dddd-dd-ddTdd:dd:dd.dddZ";
  return text.size() >= kTimeLength && std::equal(kPattern.begin(), kPattern.end(), text.begin(), [](char p, char c) {
           return p == 'd' ? c >= '0' && c <= '9' : p == c;
         });
}

std::optional<LogLevel> level_named(std::string_view name) {
  for (const LogLevel level : {LogLevel::debug, LogLevel::info, LogLevel::warning, LogLevel::error}) {
    if (name == to_string(level)) {
      return level;
    }
  }
  return std::nullopt;
}

/// The word behind the time.
std::optional<LogLevel> level_of(std::string_view text) {
  const std::string_view rest = text.substr(std::min(text.size(), kTimeLength + 1));
  return level_named(rest.substr(0, rest.find(' ')));
}

}  // namespace

LogMerge::LogMerge(fs::path folder, std::string role) : folder_(std::move(folder)), role_(std::move(role)) {}

void LogMerge::begin_round() {
  is_new_round_ = false;
  for (auto& [role, file] : files_) {
    file.is_at_end = false;
  }
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    if (entry.path().extension() != ".log") {
      continue;
    }
    const std::string role = role_of(entry.path());
    if (role_.empty() || role == role_ || role.starts_with(role_ + "/")) {
      files_.try_emplace(role, File{entry.path(), 0, {}, false, false, {}, {}});
    }
  }
}

void LogMerge::fill(const std::string& role, File& file, bool takes_unfinished) {
  while (!file.line && !file.is_at_end) {
    const auto end = file.buffer.find('\n');
    const bool is_too_long = end == std::string::npos && file.buffer.size() >= kMaxLineBytes;
    if (end == std::string::npos && !is_too_long) {
      std::array<char, 16 * 1024> block;
      std::ifstream stream(file.path, std::ios::binary);
      stream.seekg(file.offset);
      stream.read(block.data(), block.size());
      file.offset += stream.gcount();
      file.buffer.append(block.data(), static_cast<std::size_t>(stream.gcount()));
      if (stream.gcount() > 0) {
        continue;
      }
      file.is_at_end = true;
      if (!takes_unfinished || file.buffer.empty()) {
        return;
      }
    }
    const std::size_t length = end != std::string::npos ? end : std::min(file.buffer.size(), kMaxLineBytes);
    std::string text = file.buffer.substr(0, length);
    file.buffer.erase(0, end == std::string::npos ? length : length + 1);
    const bool is_rest = std::exchange(file.is_cutting, is_too_long);
    if (is_rest) {
      continue;
    }
    const bool is_event = is_time(text);
    file.last_time = is_event ? text.substr(0, kTimeLength) : file.last_time;
    file.line = MergedLine{role, file.last_time, is_event ? level_of(text) : std::nullopt, std::move(text)};
  }
}

std::optional<MergedLine> LogMerge::next(bool takes_unfinished) {
  if (is_new_round_) {
    begin_round();
  }
  File* first = nullptr;
  for (auto& [role, file] : files_) {
    fill(role, file, takes_unfinished);
    if (file.line && (first == nullptr || file.line->time < first->line->time)) {
      first = &file;
    }
  }
  is_new_round_ = first == nullptr;
  return first == nullptr ? std::nullopt : std::exchange(first->line, std::nullopt);
}

std::string format_line(const MergedLine& line, bool has_colour) {
  const char* colour = !has_colour || !line.level         ? ""
                       : *line.level == LogLevel::error   ? "\x1b[31m"
                       : *line.level == LogLevel::warning ? "\x1b[33m"
                       : *line.level == LogLevel::debug   ? "\x1b[2m"
                                                          : "";
  const char* end = *colour != '\0' ? "\x1b[0m" : "";
  return fmt::format("{}{:<14}{} | {}{}{}\n", has_colour ? "\x1b[36m" : "", visible(line.role),
                     has_colour ? "\x1b[0m" : "", colour, visible(line.text), end);
}

int logs(const LogsArguments& arguments) {
  const auto is_running = [&] {
    const auto view = load_run_view(arguments.run, static_cast<std::int64_t>(1000 * unix_time_s()));
    return view && (view->life == RunLife::running || view->life == RunLife::elsewhere);
  };
  if (auto view = load_run_view(arguments.run, 0); !view) {
    return report_error(view.error().message, kExitUsage);
  }
  const auto level = level_named(arguments.level);
  if (!level) {
    return report_error("--level " + arguments.level + ": allowed debug, info, warning, error", kExitUsage);
  }
  const bool has_colour = is_terminal(STDOUT_FILENO);
  LogMerge merge(fs::path(arguments.run) / "logs", arguments.role);
  while (true) {
    // Asked before reading: what was written before the end is read after it.
    const bool is_last_round = !arguments.is_following || !is_running();
    while (auto line = merge.next(is_last_round)) {
      if (!line->level || *line->level >= *level) {
        std::fputs(format_line(*line, has_colour).c_str(), stdout);
      }
    }
    std::fflush(stdout);
    if (is_last_round || std::ferror(stdout) != 0) {
      return kExitOk;
    }
    std::this_thread::sleep_for(kPollEvery);
  }
}

}  // namespace memopd

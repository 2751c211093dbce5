#include "runtime/cluster/detail/output_log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/time.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>

#include "runtime/base/log.hpp"

namespace memopd::detail {
namespace {

/// 2026-11-30T12:00:00.123Z
std::string utc_now() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::tm utc{};
  ::gmtime_r(&now.tv_sec, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1'000'000);
}

}  // namespace

Expected<OutputLog> OutputLog::open(const std::filesystem::path& path) {
  if (path.empty()) {
    return OutputLog({}, {});
  }
  std::error_code failed;
  if (path.has_parent_path()) {
    std::filesystem::create_directories(path.parent_path(), failed);
  }
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  if (!file.is_open()) {
    return unexpected(ErrorCode::io_error, fmt::format("log file {}: {}", path.string(), std::strerror(errno)));
  }
  return OutputLog(path, std::move(file));
}

void OutputLog::append(std::string_view bytes) {
  std::string block;
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const auto room = kMaxLineBytes - partial_.size();
    const auto size = std::min({end, room, bytes.size()});
    partial_.append(bytes.substr(0, size));
    bytes.remove_prefix(size);
    if (end == size) {
      bytes.remove_prefix(1);
    } else if (partial_.size() < kMaxLineBytes) {
      break;
    }
    take_line(partial_, block);
    partial_.clear();
  }
  write(block);
}

void OutputLog::finish() {
  if (!partial_.empty()) {
    std::string block;
    take_line(partial_, block);
    partial_.clear();
    write(block);
  }
}

void OutputLog::take_line(std::string_view line, std::string& block) {
  if (file_.is_open()) {
    block += fmt::format("{} {}\n", utc_now(), line);
  }
  last_lines_.emplace_back(line);
  if (last_lines_.size() > kLinesInMemory) {
    last_lines_.pop_front();
  }
}

void OutputLog::write(std::string_view block) {
  while (!block.empty()) {
    const auto written = ::write(file_.get(), block.data(), block.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      if (!has_failed_) {  // a full disk: said once, the lines in memory go on
        log_error("process_table", "log_file_failed", {{"file", path_.string()}, {"error", std::strerror(errno)}});
      }
      has_failed_ = true;
      return;
    }
    block.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace memopd::detail

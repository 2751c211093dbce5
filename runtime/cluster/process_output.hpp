// What processes print, on its way from the log files of another host to the run directory.
//
// PO-1  lines arrive in order and once, also those that were printed just before an end.
// PO-2  what the head cannot take yet stays in the file there; beyond kMaxSpoolBytes the oldest is left out, and it is said.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "runtime/base/expected.hpp"
#include "runtime/cluster/messages.hpp"

namespace memopd {

/// "student/0" -> FOLDER/student-0.out
[[nodiscard]] std::filesystem::path output_file_of(const std::filesystem::path& folder, std::string_view process);

/// The agent's half. Not thread-safe.
class OutputSpool {
 public:
  static constexpr std::int64_t kMaxSpoolBytes = 64 << 20;  ///< of one process

  /// @return false: not taken; the same text is offered again
  using Send = std::function<bool(const ProcessOutput&)>;

  OutputSpool(std::filesystem::path folder, Send send) : folder_(std::move(folder)), send_(std::move(send)) {}

  /// Its file, which exists or will.
  void add(const std::string& process) { offsets_.try_emplace(process, 0); }
  /// Sends what has come, at most kTurnBytes in all. @return whether anything is left
  bool turn();

 private:
  static constexpr std::int64_t kTurnBytes = 256 << 10;
  static constexpr std::int64_t kFrameBytes = 64 << 10;

  std::int64_t send_some(const std::string& process, std::int64_t& offset, std::int64_t budget);

  const std::filesystem::path folder_;
  const Send send_;
  std::map<std::string, std::int64_t> offsets_;
};

/// The head's half. @error io_error  the file cannot be written
Expected<void> append_output(const std::filesystem::path& folder, const ProcessOutput& output);

}  // namespace memopd

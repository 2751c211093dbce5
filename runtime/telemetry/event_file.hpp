// TensorBoard event files without TensorBoard: TFRecord frames around two small protobuf messages.
//
// Frame    length (u64), masked CRC-32C of the length (u32), bytes, masked CRC-32C of the bytes (u32); little endian.
// Event    wall_time 1: double, step 2: int64, file_version 3: string, summary 5: message, session_log 7: message.
// SessionLog  status 1: enum, START = 1: readers drop what they have of this step and later ones.
// Summary  value 1 (repeated): tag 1: string, simple_value 2: float.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/expected.hpp"

namespace memopd {

/// CRC-32C (Castagnoli) of `bytes`.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);

/// As TFRecord stores a checksum: rotated right by 15 bits, plus 0xa282ead8.
[[nodiscard]] constexpr std::uint32_t masked_crc(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

/// One framed record.
[[nodiscard]] std::string tfrecord(std::string_view payload);

/// Serialised Event that opens a file.
[[nodiscard]] std::string version_event(double time_s);

/// Serialised Event with one scalar per metric, in name order.
[[nodiscard]] std::string scalars_event(std::int64_t step, double time_s, const std::map<std::string, double>& metrics);

/// Serialised Event that says that the run starts again at `step`.
[[nodiscard]] std::string restart_event(std::int64_t step, double time_s);

/// Appends scalars to one event file. Not thread-safe.
class EventFileWriter {
 public:
  /// Makes `folder` and in it `events.out.tfevents.<seconds>.<host>`.
  /// @error io_error  names the file
  [[nodiscard]] static Expected<EventFileWriter> create(const std::filesystem::path& folder, double start_time_s);

  /// Writes and flushes one Event.
  /// @error io_error
  Expected<void> write(std::int64_t step, double time_s, const std::map<std::string, double>& metrics);

  /// @error io_error
  Expected<void> write_restart(std::int64_t step, double time_s);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
  EventFileWriter(std::filesystem::path path, File file) : path_(std::move(path)), file_(std::move(file)) {}

  Expected<void> append(const std::string& event);

  std::filesystem::path path_;
  File file_;
};

}  // namespace memopd

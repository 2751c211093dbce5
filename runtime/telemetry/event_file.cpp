#include "runtime/telemetry/event_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstring>
#include <system_error>
#include <utility>

namespace memopd {
namespace {

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0x82f63b78U : 0U);  // the Castagnoli polynomial, reflected
    }
    table[byte] = crc;
  }
  return table;
}

template <class Integer>
void append_little_endian(std::string& out, Integer value) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    out += static_cast<char>((value >> (8 * i)) & 0xff);
  }
}

void append_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>((value & 0x7f) | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void append_key(std::string& out, std::uint32_t field, WireType type) {
  append_varint(out, (field << 3) | static_cast<std::uint32_t>(type));
}

void append_double(std::string& out, std::uint32_t field, double value) {
  append_key(out, field, WireType::fixed64);
  append_little_endian(out, std::bit_cast<std::uint64_t>(value));
}

void append_bytes(std::string& out, std::uint32_t field, std::string_view bytes) {
  append_key(out, field, WireType::bytes);
  append_varint(out, bytes.size());
  out += bytes;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = crc_table();
  std::uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc = kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ (crc >> 8);
  }
  return ~crc;
}

std::string tfrecord(std::string_view payload) {
  std::string record;
  append_little_endian(record, static_cast<std::uint64_t>(payload.size()));
  append_little_endian(record, masked_crc(crc32c(record)));
  record += payload;
  append_little_endian(record, masked_crc(crc32c(payload)));
  return record;
}

std::string version_event(double time_s) {
  std::string event;
  append_double(event, 1, time_s);
  append_bytes(event, 3, "brain.Event:2");
  return event;
}

std::string scalars_event(std::int64_t step, double time_s, const std::map<std::string, double>& metrics) {
  std::string summary;
  for (const auto& [name, value] : metrics) {
    std::string scalar;
    append_bytes(scalar, 1, name);
    append_key(scalar, 2, WireType::fixed32);
    append_little_endian(scalar, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
    append_bytes(summary, 1, scalar);
  }
  std::string event;
  append_double(event, 1, time_s);
  append_key(event, 2, WireType::varint);
  append_varint(event, static_cast<std::uint64_t>(step));
  append_bytes(event, 5, summary);
  return event;
}

std::string restart_event(std::int64_t step, double time_s) {
  constexpr std::uint64_t kStart = 1;
  std::string session_log;
  append_key(session_log, 1, WireType::varint);
  append_varint(session_log, kStart);
  std::string event;
  append_double(event, 1, time_s);
  append_key(event, 2, WireType::varint);
  append_varint(event, static_cast<std::uint64_t>(step));
  append_bytes(event, 7, session_log);
  return event;
}

Expected<EventFileWriter> EventFileWriter::create(const std::filesystem::path& folder, double start_time_s) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const auto path =
      folder / fmt::format("events.out.tfevents.{:010}.{}", static_cast<std::int64_t>(start_time_s), host_name());
  File file(std::fopen(path.c_str(), "ab"), &std::fclose);
  if (!file) {
    return unexpected(ErrorCode::io_error, fmt::format("event file {}: {}", path.string(), std::strerror(errno)));
  }
  EventFileWriter writer(path, std::move(file));
  MEMOPD_RETURN_IF_ERROR(writer.append(version_event(start_time_s)));
  return writer;
}

Expected<void> EventFileWriter::write(std::int64_t step, double time_s, const std::map<std::string, double>& metrics) {
  return append(scalars_event(step, time_s, metrics));
}

Expected<void> EventFileWriter::write_restart(std::int64_t step, double time_s) {
  return append(restart_event(step, time_s));
}

Expected<void> EventFileWriter::append(const std::string& event) {
  const std::string record = tfrecord(event);
  if (std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size() || std::fflush(file_.get()) != 0) {
    return unexpected(ErrorCode::io_error, fmt::format("event file {}: {}", path_.string(), std::strerror(errno)));
  }
  return {};
}

}  // namespace memopd

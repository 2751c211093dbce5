#include "runtime/telemetry/event_file.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

#include "tests/unit/runtime/telemetry/scratch_folder.hpp"

using namespace memopd;

namespace {

/// CRC-32C one bit at a time, straight from the definition: x^32 + x^28 + .. + 1, reflected.
std::uint32_t bitwise_crc32c(const std::string& bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82f63b78 : crc >> 1;
    }
  }
  return crc ^ 0xffffffff;
}

template <class T>
T little_endian(const std::string& bytes, std::size_t at) {
  T value{};
  REQUIRE(at + sizeof value <= bytes.size());
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// Splits frames and checks both checksums of each.
std::vector<std::string> unframe(const std::string& file) {
  const auto unmask = [](std::uint32_t masked) {
    const std::uint32_t rotated = masked - 0xa282ead8;
    return (rotated >> 17) | (rotated << 15);
  };
  std::vector<std::string> records;
  for (std::size_t at = 0; at < file.size();) {
    const auto size = little_endian<std::uint64_t>(file, at);
    REQUIRE(unmask(little_endian<std::uint32_t>(file, at + 8)) == bitwise_crc32c(file.substr(at, 8)));
    records.push_back(file.substr(at + 12, size));
    REQUIRE(records.back().size() == size);
    REQUIRE(unmask(little_endian<std::uint32_t>(file, at + 12 + size)) == bitwise_crc32c(records.back()));
    at += size + 16;
  }
  return records;
}

struct ProtoField {
  std::uint32_t number = 0;
  std::string bytes;  ///< the payload of whatever wire type; varints as 8 bytes
};

std::uint64_t read_varint(const std::string& bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    REQUIRE(at < bytes.size());
    const auto byte = static_cast<unsigned char>(bytes[at++]);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      return value;
    }
  }
}

std::vector<ProtoField> parse_proto(const std::string& message) {
  std::vector<ProtoField> fields;
  for (std::size_t at = 0; at < message.size();) {
    const std::uint64_t key = read_varint(message, at);
    ProtoField field{static_cast<std::uint32_t>(key >> 3), {}};
    if ((key & 7) == 0) {
      const std::uint64_t value = read_varint(message, at);
      field.bytes.assign(reinterpret_cast<const char*>(&value), sizeof value);
    } else {
      const std::size_t size = (key & 7) == 1 ? 8 : ((key & 7) == 5 ? 4 : read_varint(message, at));
      field.bytes = message.substr(at, size);
      at += size;
    }
    fields.push_back(field);
  }
  return fields;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

}  // namespace

TEST_CASE("crc32c gives the check values of RFC 3720", "[telemetry]") {
  CHECK(crc32c("123456789") == 0xe3069283);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  CHECK(crc32c("") == 0);
}

TEST_CASE("an event file opens with its version and holds every scalar by name, step and time", "[telemetry]") {
  const ScratchFolder folder;
  auto writer = EventFileWriter::create(folder.path(), 1767225600.0);
  REQUIRE(writer);
  REQUIRE(writer->write(300, 1767225601.5, {{"train/loss", 0.25}, {"eval/f1", -2.0}}));
  CHECK(writer->path().filename().string().find("events.out.tfevents.1767225600.") == 0);

  const auto records = unframe(read_file(writer->path()));

  REQUIRE(records.size() == 2);
  const auto version = parse_proto(records[0]);
  REQUIRE(version.size() == 2);
  CHECK(version[0].number == 1);
  CHECK(little_endian<double>(version[0].bytes, 0) == 1767225600.0);
  CHECK(version[1].number == 3);
  CHECK(version[1].bytes == "brain.Event:2");
  const auto event = parse_proto(records[1]);
  REQUIRE(event.size() == 3);
  CHECK(little_endian<double>(event[0].bytes, 0) == 1767225601.5);
  CHECK(event[1].number == 2);
  CHECK(little_endian<std::int64_t>(event[1].bytes, 0) == 300);
  CHECK(event[2].number == 5);
  const auto values = parse_proto(event[2].bytes);
  REQUIRE(values.size() == 2);
  const auto f1 = parse_proto(values[0].bytes);
  CHECK(f1[0].bytes == "eval/f1");
  CHECK(little_endian<float>(f1[1].bytes, 0) == -2.0F);
  CHECK(parse_proto(values[1].bytes)[0].bytes == "train/loss");
  CHECK(little_endian<float>(parse_proto(values[1].bytes)[1].bytes, 0) == 0.25F);
}

TEST_CASE("a resumed run tells readers from which step on earlier files do not count", "[telemetry][CL-3]") {
  const auto event = parse_proto(restart_event(7, 2.5));

  REQUIRE(event.size() == 3);
  CHECK(little_endian<double>(event[0].bytes, 0) == 2.5);
  CHECK(event[1].number == 2);
  CHECK(little_endian<std::int64_t>(event[1].bytes, 0) == 7);
  CHECK(event[2].number == 7);  // session_log
  const auto session = parse_proto(event[2].bytes);
  REQUIRE(session.size() == 1);
  CHECK(session[0].number == 1);                                 // status
  CHECK(little_endian<std::int64_t>(session[0].bytes, 0) == 1);  // START
}

TEST_CASE("an event file has the bytes that TensorBoard's own writer gives", "[telemetry]") {
  // tests/golden/tensorboard_reference.py
  const std::string golden =
      read_file(std::filesystem::path(MEMOPD_SOURCE_DIR) / "tests/golden/tensorboard_events.bin");
  REQUIRE_FALSE(golden.empty());
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(tfrecord(version_event(1767225600.0)) +
            tfrecord(scalars_event(300, 1767225601.5,
                                   {{"eval/f1", -2.0}, {"train/grad_norm", infinity}, {"train/loss", 0.1}})) ==
        golden);
}

TEST_CASE("an event file cannot be made where a file stands", "[telemetry][error]") {
  const ScratchFolder folder;
  std::ofstream(folder.path() / "tensorboard") << "x";
  const auto writer = EventFileWriter::create(folder.path() / "tensorboard", 0);
  REQUIRE_FALSE(writer);
  CHECK(writer.error().code == ErrorCode::io_error);
  CHECK(writer.error().message.find("tensorboard") != std::string::npos);
}

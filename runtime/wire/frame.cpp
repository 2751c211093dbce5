#include "runtime/wire/frame.hpp"

#include <algorithm>
#include <array>

namespace memopd {
namespace {

constexpr std::array<std::byte, 4> kMagic{std::byte{'M'}, std::byte{'O'}, std::byte{'P'}, std::byte{'D'}};

Unexpected too_large(std::string_view what, std::size_t size) {
  return unexpected(ErrorCode::invalid_argument,
                    std::string(what) + " of " + std::to_string(size) + " bytes exceeds the control frame limit of " +
                        std::to_string(kMaxControlFrameBytes) +
                        " bytes: send large payloads over the bulk path, as an ObjectRef of the object store");
}

}  // namespace

Expected<std::vector<std::byte>> encode_frame(const MessageType& type, const void* message) {
  const std::vector<std::byte> body = type.encode(message);
  WireWriter header;
  header.write_string(type.name.name);
  header.write_int(type.name.version);
  const std::size_t size = kMagic.size() + 1 + header.bytes().size() + body.size();
  if (size > kMaxControlFrameBytes) {
    return too_large("message " + to_string(type.name), size);
  }
  std::vector<std::byte> frame;
  frame.reserve(size);
  frame.insert(frame.end(), kMagic.begin(), kMagic.end());
  frame.push_back(std::byte{kFrameVersion});
  frame.insert(frame.end(), header.bytes().begin(), header.bytes().end());
  frame.insert(frame.end(), body.begin(), body.end());
  return frame;
}

Expected<FrameView> parse_frame(std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxControlFrameBytes) {
    return too_large("frame", bytes.size());
  }
  if (bytes.size() < kMagic.size() + 1 || !std::equal(kMagic.begin(), kMagic.end(), bytes.begin())) {
    return unexpected(ErrorCode::parse_error, "not a frame: the magic is missing");
  }
  const auto version = static_cast<int>(bytes[kMagic.size()]);
  if (version != kFrameVersion) {
    return unexpected(ErrorCode::bad_schema, "frame version " + std::to_string(version) + ", this build speaks " +
                                                 std::to_string(kFrameVersion));
  }
  const auto rest = bytes.subspan(kMagic.size() + 1);
  WireReader reader(rest);
  FrameView frame;
  std::int64_t message_version = 0;
  if (!reader.read_string(frame.name) || !detail::read_ranged_int(reader, 0, 1 << 30, message_version)) {
    return unexpected(reader.error().code, "frame header: " + reader.error().message);
  }
  frame.version = static_cast<std::int32_t>(message_version);
  frame.body = rest.subspan(reader.position());
  return frame;
}

Expected<void> check_frame_type(const FrameView& frame, const MessageName& expected) {
  const MessageName found{frame.name, frame.version};
  if (found == expected) {
    return {};
  }
  return unexpected(ErrorCode::bad_schema, "expected message " + to_string(expected) + ", found " + to_string(found));
}

}  // namespace memopd

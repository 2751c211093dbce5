// Versioned frames: how a message looks between processes: magic, frame version, message name and version, body.
//
// Layout  "MOPD" | frame version u8 | msgpack str: message name | msgpack int: message version | body (codec.hpp)
// Limit   a control frame is at most 1 MiB; what is larger goes through the object store (the bulk path) by reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/wire/message.hpp"

namespace memopd {

inline constexpr std::uint8_t kFrameVersion = 1;
inline constexpr std::size_t kMaxControlFrameBytes = std::size_t{1} << 20;

/// A parsed frame; views into the bytes it was parsed from.
struct FrameView {
  std::string_view name;
  std::int32_t version = 0;
  std::span<const std::byte> body;
};

/// @error invalid_argument  larger than kMaxControlFrameBytes; names the message, both sizes and the bulk path
[[nodiscard]] Expected<std::vector<std::byte>> encode_frame(const MessageType& type, const void* message);

template <Message T>
[[nodiscard]] Expected<std::vector<std::byte>> encode_frame(const T& message) {
  return encode_frame(message_type<T>(), &message);
}

/// @error parse_error       not a frame, or truncated
/// @error bad_schema        another frame version; shows both
/// @error invalid_argument  larger than kMaxControlFrameBytes; nothing of it was read
[[nodiscard]] Expected<FrameView> parse_frame(std::span<const std::byte> bytes);

/// @error bad_schema  the frame holds another message or version; shows both
[[nodiscard]] Expected<void> check_frame_type(const FrameView& frame, const MessageName& expected);

/// parse_frame, the type check and decode in one.
template <Message T>
[[nodiscard]] Expected<T> decode_frame(std::span<const std::byte> bytes) {
  const auto frame = parse_frame(bytes);
  if (!frame) {
    return unexpected(frame.error());
  }
  MEMOPD_RETURN_IF_ERROR(check_frame_type(*frame, message_type<T>().name));
  return decode<T>(frame->body);
}

}  // namespace memopd

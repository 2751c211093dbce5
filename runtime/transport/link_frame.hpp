// LinkFrame: what every control frame between processes begins with: (run, incarnation, sequence).
//
// Layout  "MOPL" | kind u8 | 3 zero bytes | run 16 bytes | incarnation u64 | sequence u64 | body; little endian, 40 bytes
//         before the body. Body of data: bytes of the user; of the other kinds: a frame of runtime/wire.
// Limit   the body is at most kMaxControlFrameBytes (1 MiB); ZeroMQ refuses what claims more before it allocates (R3, R7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/transport/identity.hpp"
#include "runtime/wire/frame.hpp"

namespace memopd {

enum class LinkFrameKind : std::uint8_t {
  hello,    ///< first frame of who dialled: LinkHello
  welcome,  ///< first frame of who was dialled: LinkHello
  refusal,  ///< instead of a welcome: LinkRefusal
  goodbye,  ///< the link ends, with a reason: LinkRefusal
  data,
};

struct LinkHeader {
  LinkFrameKind kind = LinkFrameKind::data;
  RunId run;
  std::uint64_t incarnation = 0;  ///< of the sender
  std::uint64_t sequence = 0;     ///< of the connection, each direction: 0 = hello or welcome, then rising
};

struct LinkFrameView {
  LinkHeader header;
  std::span<const std::byte> body;
};

struct LinkHello {
  ProcessIdentity identity;
};
MEMOPD_MESSAGE(LinkHello, 1, identity)

struct LinkRefusal {
  std::string code;  ///< as to_string(ErrorCode) prints it
  std::string message;
};
MEMOPD_MESSAGE(LinkRefusal, 1, code, message)

inline constexpr std::size_t kLinkHeaderBytes = 40;
inline constexpr std::size_t kMaxLinkFrameBytes = kLinkHeaderBytes + kMaxControlFrameBytes;

/// @param body  at most kMaxControlFrameBytes (MEMOPD_CHECK)
[[nodiscard]] std::vector<std::byte> encode_link_frame(const LinkHeader& header, std::span<const std::byte> body);
/// Sets the sequence of an encoded frame.
void stamp_sequence(std::span<std::byte> frame, std::uint64_t sequence);
/// A view into `bytes`. @error parse_error
[[nodiscard]] Expected<LinkFrameView> parse_link_frame(std::span<const std::byte> bytes);

}  // namespace memopd

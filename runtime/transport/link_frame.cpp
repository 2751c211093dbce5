#include "runtime/transport/link_frame.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/base/check.hpp"

namespace memopd {
namespace {

constexpr std::array<std::byte, 4> kMagic{std::byte{'M'}, std::byte{'O'}, std::byte{'P'}, std::byte{'L'}};
constexpr std::size_t kKindAt = 4;
constexpr std::size_t kRunAt = 8;
constexpr std::size_t kIncarnationAt = 24;
constexpr std::size_t kSequenceAt = 32;
constexpr auto kLastKind = static_cast<std::uint8_t>(LinkFrameKind::data);

std::uint64_t read_u64(std::span<const std::byte> bytes, std::size_t at) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

std::vector<std::byte> encode_link_frame(const LinkHeader& header, std::span<const std::byte> body) {
  MEMOPD_CHECK(body.size() <= kMaxControlFrameBytes, "a control frame above its limit");
  std::vector<std::byte> frame(kLinkHeaderBytes + body.size());
  std::copy(kMagic.begin(), kMagic.end(), frame.begin());
  frame[kKindAt] = static_cast<std::byte>(header.kind);
  std::memcpy(frame.data() + kRunAt, header.run.bytes.data(), header.run.bytes.size());
  std::memcpy(frame.data() + kIncarnationAt, &header.incarnation, sizeof header.incarnation);
  stamp_sequence(frame, header.sequence);
  std::copy(body.begin(), body.end(), frame.begin() + kLinkHeaderBytes);
  return frame;
}

void stamp_sequence(std::span<std::byte> frame, std::uint64_t sequence) {
  std::memcpy(frame.data() + kSequenceAt, &sequence, sizeof sequence);
}

Expected<LinkFrameView> parse_link_frame(std::span<const std::byte> bytes) {
  if (bytes.size() < kLinkHeaderBytes) {
    return unexpected(ErrorCode::parse_error, "not a link frame: " + std::to_string(bytes.size()) +
                                                  " bytes, at least " + std::to_string(kLinkHeaderBytes) + " needed");
  }
  if (!std::equal(kMagic.begin(), kMagic.end(), bytes.begin())) {
    return unexpected(ErrorCode::parse_error, "not a link frame: the magic is missing");
  }
  const auto kind = static_cast<std::uint8_t>(bytes[kKindAt]);
  const auto padding = bytes.subspan(kKindAt + 1, kRunAt - kKindAt - 1);
  if (kind > kLastKind || std::any_of(padding.begin(), padding.end(), [](std::byte b) { return b != std::byte{0}; })) {
    return unexpected(ErrorCode::parse_error, "link frame of unknown kind " + std::to_string(kind));
  }
  if (bytes.size() > kMaxLinkFrameBytes) {
    return unexpected(ErrorCode::parse_error, "link frame of " + std::to_string(bytes.size()) + " bytes, at most " +
                                                  std::to_string(kMaxLinkFrameBytes));
  }
  LinkFrameView view;
  view.header.kind = static_cast<LinkFrameKind>(kind);
  std::memcpy(view.header.run.bytes.data(), bytes.data() + kRunAt, view.header.run.bytes.size());
  view.header.incarnation = read_u64(bytes, kIncarnationAt);
  view.header.sequence = read_u64(bytes, kSequenceAt);
  view.body = bytes.subspan(kLinkHeaderBytes);
  return view;
}

}  // namespace memopd

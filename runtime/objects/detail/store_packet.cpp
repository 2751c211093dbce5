#include "runtime/objects/detail/store_packet.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace memopd::detail {
namespace {

constexpr std::size_t kMaxDescriptors = 4;  // room to see that more than one came; the kernel closes the others

std::vector<Descriptor> take_descriptors(msghdr& header) {
  std::vector<Descriptor> taken;
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(item) + i * sizeof(int), sizeof fd);
      taken.emplace_back(fd);
    }
  }
  return taken;
}

}  // namespace

Expected<void> send_packet(int socket, std::span<const std::byte> bytes, int descriptor) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  if (descriptor >= 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* const item = CMSG_FIRSTHDR(&header);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(item), &descriptor, sizeof descriptor);
  }
  while (::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EINTR) {
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return unexpected(ErrorCode::overloaded, "the other side of the object socket does not read");
    }
    if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) {
      return unexpected(ErrorCode::target_down, "the other side of the object socket is gone");
    }
    return unexpected(system_error("send on the object socket", errno));
  }
  return {};
}

Expected<std::optional<Packet>> receive_packet(int socket) {
  std::array<std::byte, kMaxPacketBytes> buffer;
  iovec part{buffer.data(), buffer.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxDescriptors)> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t size = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  for (int num_resets = 0; size < 0 && (errno == EINTR || errno == ECONNRESET) && num_resets < 2;) {
    num_resets += errno == ECONNRESET ? 1 : 0;  // told once, before what the other side said at last
    size = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  }
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    return std::optional<Packet>();
  }
  auto descriptors = size >= 0 ? take_descriptors(header) : std::vector<Descriptor>();
  if (size <= 0) {  // an empty packet cannot be told from the end, and means nothing either
    return unexpected(ErrorCode::target_down, "the other side of the object socket is gone");
  }
  if (descriptors.size() > 1 || (header.msg_flags & MSG_TRUNC) != 0) {
    return unexpected(ErrorCode::parse_error, "a packet above " + std::to_string(kMaxPacketBytes) + " bytes or with " +
                                                  std::to_string(descriptors.size()) +
                                                  " descriptors, at most 1 may come");
  }
  Packet packet;
  packet.bytes.assign(buffer.begin(), buffer.begin() + size);
  packet.lost_descriptor = (header.msg_flags & MSG_CTRUNC) != 0;
  if (!descriptors.empty()) {
    packet.descriptor = std::move(descriptors.front());
  }
  return std::optional<Packet>(std::move(packet));
}

}  // namespace memopd::detail

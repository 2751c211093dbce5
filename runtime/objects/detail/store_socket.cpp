#include "runtime/objects/detail/store_socket.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "runtime/transport/listen.hpp"

namespace memopd::detail {
namespace {

constexpr int kBacklog = 128;

Expected<sockaddr_un> address_of(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = path.string();
  if (text.empty() || text.size() >= sizeof address.sun_path) {
    return unexpected(ErrorCode::invalid_argument, "socket path \"" + text + "\" has " + std::to_string(text.size()) +
                                                       " bytes, allowed 1.." +
                                                       std::to_string(sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, text.data(), text.size());
  return address;
}

Expected<Descriptor> make_socket() {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) {
    return unexpected(system_error("create a socket", errno));
  }
  return socket;
}

}  // namespace

Expected<Descriptor> listen_at(const std::filesystem::path& path) {
  const auto address = address_of(path);
  MEMOPD_RETURN_IF_ERROR(address);
  MEMOPD_RETURN_IF_ERROR(make_private_folder(path.parent_path()));
  const auto other = connect_to(path);
  if (other) {
    return unexpected(ErrorCode::already_exists, path.string() + ": an object server answers there already");
  }
  ::unlink(path.c_str());
  auto socket = make_socket();
  MEMOPD_RETURN_IF_ERROR(socket);
  if (::bind(socket->get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 ||
      ::listen(socket->get(), kBacklog) != 0) {
    return unexpected(system_error(path.string() + ": listen", errno));
  }
  return socket;
}

Expected<Descriptor> connect_to(const std::filesystem::path& path) {
  const auto address = address_of(path);
  MEMOPD_RETURN_IF_ERROR(address);
  auto socket = make_socket();
  MEMOPD_RETURN_IF_ERROR(socket);
  if (::connect(socket->get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    const int number = errno;
    const Error error = system_error(path.string() + ": connect", number);
    const bool is_absent = number == ENOENT || number == ECONNREFUSED;
    const bool is_busy = number == EAGAIN;  // its queue of connections is full
    return unexpected(is_absent ? ErrorCode::target_down : is_busy ? ErrorCode::overloaded : error.code, error.message);
  }
  return socket;
}

Expected<void> check_peer_user(const Descriptor& socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return unexpected(system_error("credentials of a peer", errno));
  }
  if (peer.uid != ::geteuid()) {
    return unexpected(ErrorCode::refused, "process " + std::to_string(peer.pid) + " of user " +
                                              std::to_string(peer.uid) + ", allowed is user " +
                                              std::to_string(::geteuid()));
  }
  return {};
}

}  // namespace memopd::detail

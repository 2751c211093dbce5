#include "tools/bench/raw_tcp.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace memopd {
namespace {

constexpr std::size_t kPieceBytes = 1 << 20;
constexpr timeval kPatience{60, 0};

/// Owns a socket.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  }
  ~Socket() { ::close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  const int fd_;
};

Error failed(const std::string& what) { return {ErrorCode::io_error, what + ": " + std::strerror(errno)}; }

void send_all(int socket, const std::vector<std::byte>& bytes) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    const auto size = ::send(socket, bytes.data() + sent, std::min(kPieceBytes, bytes.size() - sent), MSG_NOSIGNAL);
    if (size <= 0) {
      return;  // the reader says so
    }
    sent += static_cast<std::size_t>(size);
  }
}

void serve(const Socket& listener, std::int32_t num_readers, const std::vector<std::byte>& bytes) {
  std::vector<std::thread> senders;
  for (std::int32_t i = 0; i < num_readers; ++i) {
    const int fd = ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) {
      senders.emplace_back([fd, &bytes] { send_all(Socket(fd).get(), bytes); });
    }
  }
  for (std::thread& sender : senders) {
    sender.join();
  }
}

}  // namespace

Expected<std::uint16_t> serve_raw(std::size_t size, std::int32_t num_readers) {
  const auto listener = std::make_shared<const Socket>(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener->get(), any, length) != 0 || ::listen(listener->get(), num_readers) != 0 ||
      ::getsockname(listener->get(), any, &length) != 0) {
    return unexpected(failed("a plain socket"));
  }
  auto bytes = std::make_shared<const std::vector<std::byte>>(size, std::byte{7});
  std::thread([listener, bytes, num_readers] { serve(*listener, num_readers, *bytes); }).detach();
  return ntohs(address.sin_port);
}

Expected<void> read_raw(const std::string& host, std::uint16_t port, std::size_t size) {
  const Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (::inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1 ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return unexpected(ErrorCode::target_down, "no plain socket at " + host + ":" + std::to_string(port));
  }
  const auto bytes = std::make_unique_for_overwrite<std::byte[]>(size);
  for (std::size_t got = 0; got < size;) {
    const auto more = ::recv(socket.get(), bytes.get() + got, std::min(kPieceBytes, size - got), 0);
    if (more <= 0) {
      return unexpected(
          failed("a plain socket after " + std::to_string(got) + " of " + std::to_string(size) + " bytes"));
    }
    got += static_cast<std::size_t>(more);
  }
  return {};
}

}  // namespace memopd

#include "runtime/cluster/reach.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "runtime/cluster/detail/file_descriptor.hpp"

namespace memopd {
namespace {

constexpr std::string_view kTcp = "tcp://";

Error no_way(const std::string& host, const char* what) {
  return {ErrorCode::not_found, "address of this host towards " + host + ": " + what};
}

}  // namespace

std::string endpoint_for(const std::vector<std::string>& endpoints, bool is_same_node) {
  const auto tcp = std::find_if(endpoints.begin(), endpoints.end(),
                                [](const std::string& endpoint) { return endpoint.starts_with(kTcp); });
  return is_same_node || tcp == endpoints.end() ? endpoints.front() : *tcp;
}

std::string host_of_endpoint(std::string_view endpoint) {
  if (!endpoint.starts_with(kTcp)) {
    return {};
  }
  endpoint.remove_prefix(kTcp.size());
  return std::string(endpoint.substr(0, endpoint.rfind(':')));
}

std::string host_of_address(std::string_view address) {
  return std::string(address.substr(address.rfind('@') + 1));  // npos + 1 is 0: all of it
}

Expected<std::string> own_address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int failed = ::getaddrinfo(host.c_str(), "9", &hints, &found); failed != 0) {
    return unexpected(no_way(host, ::gai_strerror(failed)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  const detail::FileDescriptor probe(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  socklen_t size = sizeof own;
  // Connecting a datagram socket chooses the route and sends nothing.
  if (!probe.is_open() || ::connect(probe.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) {
    return unexpected(no_way(host, std::strerror(errno)));
  }
  std::array<char, INET_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET, &own.sin_addr, text.data(), text.size());
  return std::string(text.data());
}

}  // namespace memopd

#include "runtime/transport/listen.hpp"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "runtime/transport/detail/bind_endpoints.hpp"

namespace memopd {
namespace {

std::filesystem::path socket_path(const ListenOptions& options, std::string_view socket_name) {
  return options.ipc_folder / socket_name;
}

Expected<std::string> bind_ipc(detail::ZmqSocket& socket, const ListenOptions& options, std::string_view socket_name) {
  MEMOPD_RETURN_IF_ERROR(make_private_folder(options.ipc_folder));
  const std::string endpoint = "ipc://" + socket_path(options, socket_name).string();
  MEMOPD_RETURN_IF_ERROR(socket.bind(endpoint));
  return endpoint;
}

Expected<std::string> bind_tcp(detail::ZmqSocket& socket, const ListenOptions& options) {
  const std::string host = "tcp://" + options.tcp_host + ":";
  if (options.ports.lo == 0) {
    MEMOPD_RETURN_IF_ERROR(socket.bind(host + "*"));
    return socket.last_endpoint();
  }
  for (int port = options.ports.lo; port <= options.ports.hi; ++port) {
    const auto bound = socket.bind(host + std::to_string(port));
    if (bound) {
      return socket.last_endpoint();
    }
    if (bound.error().code != ErrorCode::already_exists) {
      return unexpected(bound.error());
    }
  }
  return unexpected(ErrorCode::already_exists, "no free port on " + options.tcp_host + " in [" +
                                                   std::to_string(options.ports.lo) + ", " +
                                                   std::to_string(options.ports.hi) + "]");
}

}  // namespace

Expected<void> make_private_folder(const std::filesystem::path& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return unexpected(ErrorCode::io_error, folder.string() + ": create: " + std::strerror(errno));
  }
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0) {
    return unexpected(ErrorCode::io_error, folder.string() + ": stat: " + std::strerror(errno));
  }
  const unsigned mode = status.st_mode & 07777U;
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || mode != 0700) {
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "%04o", mode);
    return unexpected(ErrorCode::refused,
                      folder.string() + ": mode " + text.data() + ", owner " + std::to_string(status.st_uid) +
                          ": sockets need a folder of mode 0700 of user " + std::to_string(::geteuid()));
  }
  return {};
}

Expected<void> check_listen_options(const ListenOptions& options, std::string_view socket_name) {
  const auto bad = [](std::string message) { return unexpected(ErrorCode::invalid_argument, std::move(message)); };
  if (options.ipc_folder.empty() && options.tcp_host.empty()) {
    return bad("neither an ipc folder nor a tcp host to listen at");
  }
  const auto [lo, hi] = options.ports;
  if (lo > hi || (lo == 0 && hi > 0)) {
    return bad("ports [" + std::to_string(lo) + ", " + std::to_string(hi) + "]: expected [0, 0] or 1 <= lo <= hi");
  }
  const std::string path = socket_path(options, socket_name).string();
  constexpr std::size_t kMaxPath = sizeof(sockaddr_un::sun_path) - 1;
  if (!options.ipc_folder.empty() && path.size() > kMaxPath) {
    return bad("socket path " + path + " has " + std::to_string(path.size()) + " bytes, at most " +
               std::to_string(kMaxPath) + " are possible: choose a shorter folder");
  }
  return {};
}

Expected<std::vector<std::string>> detail::bind_endpoints(ZmqSocket& socket, const ListenOptions& options,
                                                          std::string_view socket_name) {
  MEMOPD_RETURN_IF_ERROR(check_listen_options(options, socket_name));
  std::vector<std::string> endpoints;
  if (!options.ipc_folder.empty()) {
    auto endpoint = bind_ipc(socket, options, socket_name);
    MEMOPD_RETURN_IF_ERROR(endpoint);
    endpoints.push_back(*std::move(endpoint));
  }
  if (!options.tcp_host.empty()) {
    auto endpoint = bind_tcp(socket, options);
    MEMOPD_RETURN_IF_ERROR(endpoint);
    endpoints.push_back(*std::move(endpoint));
  }
  return endpoints;
}

}  // namespace memopd

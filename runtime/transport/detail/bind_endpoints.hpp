// bind_endpoints: binds a socket wherever ListenOptions says and tells the endpoints that came of it (R12).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/transport/detail/zmq_socket.hpp"
#include "runtime/transport/listen.hpp"

namespace memopd::detail {

/// ipc first, then tcp. @param socket_name  file name of the ipc socket
/// @error already_exists  every port of the range is in use; io_error; those of check_listen_options
[[nodiscard]] Expected<std::vector<std::string>> bind_endpoints(ZmqSocket& socket, const ListenOptions& options,
                                                                std::string_view socket_name);

}  // namespace memopd::detail

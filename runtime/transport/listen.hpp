// ListenOptions: where a process can be reached. Sockets are bound first, then their endpoints reported (R12).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/base/expected.hpp"

namespace memopd {

/// Ports lo..hi, both included; 0..0 lets the kernel choose.
struct PortRange {
  std::uint16_t lo = 0;
  std::uint16_t hi = 0;
};

struct ListenOptions {
  std::filesystem::path ipc_folder;  ///< of this user alone (0700), created if missing; empty: no ipc
  std::string tcp_host;              ///< numeric address or interface to bind, "127.0.0.1"; empty: no tcp
  PortRange ports;
};

/// Creates `folder` with mode 0700, or accepts it as it is.
/// @error refused   not a folder of this user, or its mode lets others in; shows both
/// @error io_error
Expected<void> make_private_folder(const std::filesystem::path& folder);

/// @error invalid_argument  no place to listen at, lo > hi, lo == 0 < hi, a socket path above 107 bytes
[[nodiscard]] Expected<void> check_listen_options(const ListenOptions& options, std::string_view socket_name);

}  // namespace memopd

// Unix sockets of the object server: SOCK_SEQPACKET, non-blocking, of this user alone.
#pragma once

#include <filesystem>

#include "runtime/base/expected.hpp"
#include "runtime/objects/detail/sealed_memory.hpp"

namespace memopd::detail {

/// @error invalid_argument  a path above 107 bytes
/// @error already_exists    somebody answers there; what nobody answers at is replaced
/// @error refused           the folder lets other users in
/// @error io_error, overloaded
[[nodiscard]] Expected<Descriptor> listen_at(const std::filesystem::path& path);
/// @error target_down  nobody there
/// @error overloaded   too many wait to be let in, or no descriptor left
/// @error invalid_argument, io_error  as above
[[nodiscard]] Expected<Descriptor> connect_to(const std::filesystem::path& path);
/// @error refused  the other side belongs to another user; both are named
[[nodiscard]] Expected<void> check_peer_user(const Descriptor& socket);

}  // namespace memopd::detail

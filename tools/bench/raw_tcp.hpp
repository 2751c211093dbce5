// The peer of the broadcast bench: bytes over plain sockets, as fast as send and recv go.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/expected.hpp"

namespace memopd {

/// Listens at every address; the first `num_readers` connections get `size` bytes of ready memory each, a thread for each.
/// All of it ends by itself. @return the port
/// @error io_error
[[nodiscard]] Expected<std::uint16_t> serve_raw(std::size_t size, std::int32_t num_readers);

/// Reads `size` bytes into new memory, as whoever wants to keep them must.
/// @error target_down, io_error
[[nodiscard]] Expected<void> read_raw(const std::string& host, std::uint16_t port, std::size_t size);

}  // namespace memopd

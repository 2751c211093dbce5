// Packets between the processes of a node and their object server: one frame of runtime/wire a packet, at most one
// descriptor beside it. A connection has one request open at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/objects/detail/sealed_memory.hpp"
#include "runtime/objects/object_store.hpp"
#include "runtime/wire/message.hpp"

namespace memopd {

enum class StoreVerb : std::uint8_t { put, get, wait, release, release_scope, counters };
MEMOPD_ENUM(StoreVerb, counters)

struct StoreRequest {
  StoreVerb verb = StoreVerb::counters;
  ObjectRef ref;
  Scope scope;                   ///< of put and release_scope
  std::uint64_t size_bytes = 0;  ///< of put, whose descriptor comes along
  std::string type;              ///< of put; at most kMaxTypeNameBytes
  std::int64_t timeout_ms = 0;   ///< of wait
  bool is_elsewhere = false;     ///< of wait: get said that it may come from another node
};
MEMOPD_MESSAGE(StoreRequest, 1, verb, ref, scope, size_bytes, type, timeout_ms, is_elsewhere)

struct StoreReply {
  std::optional<Error> error;
  bool is_last = false;          ///< the server ends the connection
  bool may_come = false;         ///< with the error of get: it is looked for on other nodes, wait for it
  Scope scope;                   ///< of get
  std::uint64_t size_bytes = 0;  ///< of get, whose descriptor comes along
  std::string type;              ///< of get
  std::uint64_t count = 0;       ///< of release_scope
  ObjectStoreCounters counters;
};
MEMOPD_MESSAGE(StoreReply, 1, error, is_last, may_come, scope, size_bytes, type, count, counters)

namespace detail {

inline constexpr std::size_t kMaxPacketBytes = 8192;

/// What came in one packet.
struct Packet {
  std::vector<std::byte> bytes;
  Descriptor descriptor;
  bool lost_descriptor = false;  ///< one came, but this process has none left
};

/// Sends one packet. Never blocks.
/// @error overloaded   the other side does not read
/// @error target_down  it is gone
/// @error io_error     the kernel refused
[[nodiscard]] Expected<void> send_packet(int socket, std::span<const std::byte> bytes, int descriptor = -1);

/// Takes one packet. Never blocks; nullopt: none is there.
/// @error target_down  the other side is gone
/// @error parse_error  above kMaxPacketBytes, or with several descriptors; all of them are closed
[[nodiscard]] Expected<std::optional<Packet>> receive_packet(int socket);

}  // namespace detail
}  // namespace memopd

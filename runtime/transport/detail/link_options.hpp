// The ZeroMQ options of links (R7): heartbeats, CURVE, bounds on what one connection may hold.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/transport/detail/zmq_socket.hpp"
#include "runtime/transport/transport.hpp"

namespace memopd::detail {

void set_heartbeats(ZmqSocket& socket, const TransportOptions& options);
/// Finite queues and messages of at most `max_message_bytes`; ZeroMQ ends a connection that claims more before it
/// allocates anything.
void set_bounds(ZmqSocket& socket, int max_frames_out, int max_frames_in, std::int64_t max_message_bytes);
/// The server side asks the ZAP handler of its context about the client's key.
void set_curve_server(ZmqSocket& socket, const RunKey& key);
void set_curve_client(ZmqSocket& socket, const RunKey& key);
/// One attempt each: whoever dials decides about the next, with a socket that holds no old frames (R6).
void set_single_attempt(ZmqSocket& socket, const TransportOptions& options);
/// Bounds of control sockets. The queue never fills: ZeroMQ counts at most half of it late, and Outbox stops before.
void set_control_bounds(ZmqSocket& socket, const TransportOptions& options);

/// The 32 bytes of a key of RunKey.
[[nodiscard]] std::string decode_z85_key(const std::string& text);

inline constexpr const char* kZapDomain = "memopd";

}  // namespace memopd::detail

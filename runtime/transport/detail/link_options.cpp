#include "runtime/transport/detail/link_options.hpp"

#include <array>

#include "runtime/base/check.hpp"
#include "runtime/transport/link_frame.hpp"

namespace memopd::detail {
namespace {

constexpr std::int64_t kCurveBytes = 64;  // what encryption adds to a frame, rounded up
constexpr int kControlFramesIn = 64;      // of 1 MiB at most

int milliseconds(std::chrono::milliseconds value) { return static_cast<int>(value.count()); }

}  // namespace

void set_heartbeats(ZmqSocket& socket, const TransportOptions& options) {
  socket.set(ZMQ_HEARTBEAT_IVL, milliseconds(options.heartbeat_interval));
  socket.set(ZMQ_HEARTBEAT_TIMEOUT, milliseconds(options.dead_after));
  socket.set(ZMQ_HEARTBEAT_TTL, milliseconds(options.dead_after));
  socket.set(ZMQ_HANDSHAKE_IVL, milliseconds(options.handshake_timeout));
}

void set_bounds(ZmqSocket& socket, int max_frames_out, int max_frames_in, std::int64_t max_message_bytes) {
  socket.set(ZMQ_SNDHWM, max_frames_out);
  socket.set(ZMQ_RCVHWM, max_frames_in);
  socket.set(ZMQ_MAXMSGSIZE, max_message_bytes);
}

void set_curve_server(ZmqSocket& socket, const RunKey& key) {
  socket.set(ZMQ_CURVE_SERVER, 1);
  socket.set(ZMQ_CURVE_SECRETKEY, key.secret_key());
  socket.set(ZMQ_ZAP_DOMAIN, kZapDomain);
}

void set_curve_client(ZmqSocket& socket, const RunKey& key) {
  socket.set(ZMQ_CURVE_SERVERKEY, key.public_key());
  socket.set(ZMQ_CURVE_PUBLICKEY, key.public_key());
  socket.set(ZMQ_CURVE_SECRETKEY, key.secret_key());
}

void set_single_attempt(ZmqSocket& socket, const TransportOptions& options) {
  socket.set(ZMQ_RECONNECT_IVL, -1);
  socket.set(ZMQ_CONNECT_TIMEOUT, milliseconds(options.dead_after));
}

void set_control_bounds(ZmqSocket& socket, const TransportOptions& options) {
  set_bounds(socket, 2 * options.max_pending_frames + 64, kControlFramesIn,
             static_cast<std::int64_t>(kMaxLinkFrameBytes) + kCurveBytes);
}

std::string decode_z85_key(const std::string& text) {
  std::array<std::uint8_t, 32> bytes{};
  MEMOPD_CHECK(zmq_z85_decode(bytes.data(), text.c_str()) != nullptr, "a run key that is not Z85");
  return {bytes.begin(), bytes.end()};
}

}  // namespace memopd::detail

// SocketMonitor: what happened to the connections of one socket, in order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/transport/detail/zmq_socket.hpp"

namespace memopd::detail {

struct MonitorEvent {
  int event = 0;         ///< ZMQ_EVENT_*
  int value = 0;         ///< a file descriptor or an error number, as the event says
  std::string endpoint;  ///< where the socket is bound or connected
};

/// Lives within the life of the socket that it watches, on the same thread.
class SocketMonitor {
 public:
  SocketMonitor(const ZmqContext& context, ZmqSocket& watched);
  ~SocketMonitor();
  SocketMonitor(const SocketMonitor&) = delete;
  SocketMonitor& operator=(const SocketMonitor&) = delete;

  /// The next event that is there. What a connection did before a message came over it has been reported before.
  [[nodiscard]] std::optional<MonitorEvent> next();
  [[nodiscard]] void* socket() const { return events_.get(); }

 private:
  ZmqSocket& watched_;
  ZmqSocket events_;
};

}  // namespace memopd::detail

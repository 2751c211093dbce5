#include "runtime/transport/detail/socket_monitor.hpp"

#include <cstring>

#include "runtime/base/check.hpp"
#include "runtime/transport/identity.hpp"

namespace memopd::detail {

SocketMonitor::SocketMonitor(const ZmqContext& context, ZmqSocket& watched)
    : watched_(watched), events_(context, ZMQ_PAIR) {
  constexpr int kEvents = ZMQ_EVENT_ALL & ~(ZMQ_EVENT_LISTENING | ZMQ_EVENT_CONNECT_DELAYED);
  const std::string endpoint = "inproc://monitor-" + to_string(make_random_id<InstanceId>());
  MEMOPD_CHECK(zmq_socket_monitor(watched.get(), endpoint.c_str(), kEvents) == 0, "no socket monitor");
  events_.set(ZMQ_RCVHWM, 0);  // an event that is dropped would leave a dead link standing
  MEMOPD_CHECK(events_.connect(endpoint), "no socket monitor");
}

SocketMonitor::~SocketMonitor() { zmq_socket_monitor(watched_.get(), nullptr, 0); }

std::optional<MonitorEvent> SocketMonitor::next() {
  ZmqMessage head;
  if (!events_.receive(head)) {
    return std::nullopt;
  }
  ZmqMessage endpoint;
  MEMOPD_CHECK(head.has_more() && events_.receive(endpoint), "a monitor event of another version");
  MEMOPD_CHECK(head.bytes().size() == 6, "a monitor event of another version");
  std::uint16_t event = 0;
  std::uint32_t value = 0;
  std::memcpy(&event, head.bytes().data(), sizeof event);
  std::memcpy(&value, head.bytes().data() + sizeof event, sizeof value);
  return MonitorEvent{event, static_cast<int>(value), endpoint.text()};
}

}  // namespace memopd::detail

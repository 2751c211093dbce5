#include "runtime/transport/detail/router_socket.hpp"

#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <utility>

namespace memopd::detail {
namespace {

/// Of a connection that was just accepted at `endpoint`. It may be gone already: this is for messages only.
std::string peer_address(int fd, const std::string& endpoint) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (::getpeername(fd, generic, &size) != 0) {
    return "somebody who left " + endpoint + " at once";
  }
  if (address.ss_family == AF_UNIX || ::getnameinfo(generic, size, host.data(), host.size(), port.data(), port.size(),
                                                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return endpoint;
  }
  return std::string("tcp://") + host.data() + ":" + port.data();
}

std::string failure_text(int event) {
  switch (event) {
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      return "not admitted: another key";
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      return "handshake refused: no CURVE, or another run's key";
    default:
      return "no complete handshake: garbage, silence or a cut";
  }
}

}  // namespace

RouterSocket::RouterSocket(EventLoop& loop, const ZmqContext& context, int max_frames_per_turn,
                           RouterCallbacks callbacks)
    : loop_(loop),
      max_frames_per_turn_(max_frames_per_turn),
      callbacks_(std::move(callbacks)),
      socket_(context, ZMQ_ROUTER),
      monitor_(context, socket_) {
  socket_.set(ZMQ_ROUTER_MANDATORY, 1);
  loop_.watch(monitor_.socket(), [this] { read_events(); });
  loop_.watch(socket_.get(), [this] { read_frames(); });
}

RouterSocket::~RouterSocket() {
  loop_.unwatch(socket_.get());
  loop_.unwatch(monitor_.socket());
}

bool RouterSocket::attach(const std::string& routing_id, int fd) {
  const auto found = connections_.find(fd);
  if (found == connections_.end() || (!found->second.routing_id.empty() && found->second.routing_id != routing_id)) {
    return false;
  }
  found->second.routing_id = routing_id;
  return true;
}

void RouterSocket::detach(const std::string& routing_id, int fd) {
  const auto found = connections_.find(fd);
  if (found != connections_.end() && found->second.routing_id == routing_id) {
    found->second.routing_id.clear();
  }
}

SendStatus RouterSocket::send(const std::string& routing_id, ZmqMessage& message) {
  ZmqMessage to(std::as_bytes(std::span(routing_id)));
  const SendStatus status = socket_.send(to, true);
  return status == SendStatus::sent ? socket_.send(message) : status;
}

SendStatus RouterSocket::send(const std::string& routing_id, ZmqMessage& head, ZmqMessage& body) {
  ZmqMessage to(std::as_bytes(std::span(routing_id)));
  SendStatus status = socket_.send(to, true);
  if (status == SendStatus::sent) {
    status = socket_.send(head, true);
  }
  return status == SendStatus::sent ? socket_.send(body) : status;
}

void RouterSocket::read_events() {
  while (const auto event = monitor_.next()) {
    handle_event(*event);
  }
  if (!ended_.empty() && !is_reading_) {
    read_frames();
  }
}

void RouterSocket::report_ended() {
  for (const std::string& routing_id : std::exchange(ended_, {})) {
    callbacks_.on_gone(routing_id);
  }
}

void RouterSocket::handle_event(const MonitorEvent& event) {
  switch (event.event) {
    case ZMQ_EVENT_ACCEPTED:
      connections_[event.value] = {peer_address(event.value, event.endpoint), false, {}};
      return;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
      handshake_failure_ = failure_text(event.event);
      return;
    case ZMQ_EVENT_DISCONNECTED:
      end_connection(event.value);
      return;
    default:
      return;
  }
}

void RouterSocket::end_connection(int fd) {
  const std::string failure = std::exchange(handshake_failure_, {});
  const auto gone = connections_.extract(fd);
  if (gone.empty()) {
    return;
  }
  const Connection& connection = gone.mapped();
  if (!connection.routing_id.empty()) {
    ended_.insert(connection.routing_id);
  } else if (!connection.has_spoken) {
    callbacks_.on_stranger(connection.address, failure.empty() ? failure_text(0) : failure);
  }
}

void RouterSocket::read_frames() {
  is_reading_ = true;
  int num_left = max_frames_per_turn_;
  while (num_left > 0 && read_frame()) {
    --num_left;
  }
  is_reading_ = false;
  if (num_left > 0) {
    report_ended();
  }
}

bool RouterSocket::read_frame() {
  ZmqMessage routing_id;
  if (!socket_.receive(routing_id)) {
    return false;
  }
  RouterFrame frame;
  frame.routing_id = routing_id.text();
  if (!routing_id.has_more() || !socket_.receive(frame.body)) {
    return true;
  }
  for (ZmqMessage rest; frame.body.has_more() && socket_.receive(rest);) {
    frame.is_multipart = true;
    if (!rest.has_more()) {
      break;
    }
  }
  frame.fd = frame.body.source_fd();
  frame.address = frame.body.source_address();
  read_events();
  const auto connection = connections_.find(frame.fd);
  if (connection != connections_.end()) {
    connection->second.has_spoken = true;
    frame.address = connection->second.address;
  }
  if (connection == connections_.end() || connection->second.routing_id != frame.routing_id) {
    if (!ended_.contains(frame.routing_id)) {
      report_ended();  // a newcomer may be the successor of one of them
    }
  }
  callbacks_.on_frame(std::move(frame));
  return true;
}

}  // namespace memopd::detail

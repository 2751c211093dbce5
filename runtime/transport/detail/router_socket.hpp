// RouterSocket: a bound ROUTER that knows over which connection a frame came and when that connection ended.
//
// ZeroMQ names a connection twice: by a routing id (to send) and by a file descriptor (in events). Descriptors are reused;
// events are therefore read before frames. Handshake events carry no descriptor: a connection that ended without a frame
// is a stranger's, and the failure reported just before is the reason (one I/O thread reports both).
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "runtime/transport/detail/event_loop.hpp"
#include "runtime/transport/detail/socket_monitor.hpp"
#include "runtime/transport/detail/zmq_socket.hpp"

namespace memopd::detail {

struct RouterFrame {
  std::string routing_id;
  int fd = -1;
  std::string address;
  ZmqMessage body;
  bool is_multipart = false;  ///< further parts were dropped
};

struct RouterCallbacks {
  std::function<void(RouterFrame)> on_frame;
  /// A connection that attach() named is gone; its last frames came before.
  std::function<void(const std::string& routing_id)> on_gone;
  /// A connection ended without having proved to be a member's; `message` says how.
  std::function<void(const std::string& address, const std::string& message)> on_stranger;
};

class RouterSocket {
 public:
  /// @param max_frames_per_turn  read before other sockets get their turn; >= 1
  RouterSocket(EventLoop& loop, const ZmqContext& context, int max_frames_per_turn, RouterCallbacks callbacks);
  ~RouterSocket();
  RouterSocket(const RouterSocket&) = delete;
  RouterSocket& operator=(const RouterSocket&) = delete;

  /// To set options and bind before the loop runs.
  [[nodiscard]] ZmqSocket& socket() { return socket_; }
  /// on_gone will follow. Nothing new if it is attached already. False if the connection has ended.
  [[nodiscard]] bool attach(const std::string& routing_id, int fd);
  /// Takes attach back: no on_gone.
  void detach(const std::string& routing_id, int fd);
  /// `message` is gone unless the result is `full`.
  [[nodiscard]] SendStatus send(const std::string& routing_id, ZmqMessage& message);
  /// Two parts of one message.
  [[nodiscard]] SendStatus send(const std::string& routing_id, ZmqMessage& head, ZmqMessage& body);

 private:
  struct Connection {
    std::string address;
    bool has_spoken = false;
    std::string routing_id;  ///< once attached
  };
  void read_events();
  void handle_event(const MonitorEvent& event);
  void end_connection(int fd);
  void report_ended();
  void read_frames();
  [[nodiscard]] bool read_frame();

  EventLoop& loop_;
  const int max_frames_per_turn_;
  const RouterCallbacks callbacks_;
  ZmqSocket socket_;
  SocketMonitor monitor_;
  std::map<int, Connection> connections_;  // by file descriptor
  std::string handshake_failure_;          // of the connection whose end comes next
  bool is_reading_ = false;
  std::set<std::string> ended_;  // attached ones, reported once their last frames are read
};

}  // namespace memopd::detail

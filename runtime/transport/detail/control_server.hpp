// ControlServer: the bound end of control links. Claims are admitted here; who was dialled answers over the same socket.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/transport/detail/router_socket.hpp"
#include "runtime/transport/detail/session_table.hpp"

namespace memopd::detail {

class ControlServer {
 public:
  /// Whether an inbound link of this instance has to yield to one that is being dialled to it.
  using Yields = std::function<bool(const InstanceId&)>;

  ControlServer(EventLoop& loop, const ZmqContext& context, const TransportOptions& options, SessionTable& sessions,
                RefusalLog& refusals, Yields yields);

  [[nodiscard]] ZmqSocket& socket() { return router_.socket(); }

 private:
  class ServerRoute;
  void handle_frame(RouterFrame frame);
  void handle_claim(const RouterFrame& frame, const LinkFrameView& view);
  void accept(const RouterFrame& frame, const ProcessIdentity& claim);
  void refuse(const RouterFrame& frame, const Error& error);
  void connection_gone(const std::string& routing_id);
  [[nodiscard]] std::string sender(const RouterFrame& frame) const;

  SessionTable& sessions_;
  RefusalLog& refusals_;
  const Yields yields_;
  std::map<std::string, InstanceId> by_routing_id_;
  RouterSocket router_;
};

}  // namespace memopd::detail

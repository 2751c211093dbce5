#include "runtime/transport/detail/control_server.hpp"

#include <utility>

#include "runtime/transport/detail/control_link.hpp"
#include "runtime/transport/detail/link_options.hpp"

namespace memopd::detail {
namespace {

constexpr int kFramesPerTurn = 256;

}  // namespace

/// A ROUTER cannot cut one of its connections: after hang_up its frames are refused until the other side closes it.
class ControlServer::ServerRoute final : public Route {
 public:
  ServerRoute(ControlServer& server, std::string routing_id, int fd)
      : server_(server), routing_id_(std::move(routing_id)), fd_(fd) {}

  SendStatus send(ZmqMessage& message) override { return server_.router_.send(routing_id_, message); }
  void hang_up() override {
    server_.by_routing_id_.erase(routing_id_);
    server_.router_.detach(routing_id_, fd_);
  }

 private:
  ControlServer& server_;
  const std::string routing_id_;
  const int fd_;
};

ControlServer::ControlServer(EventLoop& loop, const ZmqContext& context, const TransportOptions& options,
                             SessionTable& sessions, RefusalLog& refusals, Yields yields)
    : sessions_(sessions),
      refusals_(refusals),
      yields_(std::move(yields)),
      router_(loop, context, kFramesPerTurn,
              {[this](RouterFrame frame) { handle_frame(std::move(frame)); },
               [this](const std::string& routing_id) { connection_gone(routing_id); },
               [this](const std::string& address, const std::string& message) {
                 refusals_.add(RefusalReason::stranger, address, message);
               }}) {
  set_curve_server(router_.socket(), options.key);
  set_heartbeats(router_.socket(), options);
  set_control_bounds(router_.socket(), options);
}

std::string ControlServer::sender(const RouterFrame& frame) const { return "member at " + frame.address; }

void ControlServer::handle_frame(RouterFrame frame) {
  const auto session = by_routing_id_.find(frame.routing_id);
  const auto view = parse_link_frame(frame.body.bytes());
  if (!view || frame.is_multipart) {
    const bool is_peer = session != by_routing_id_.end();
    refusals_.add(RefusalReason::malformed, is_peer ? sessions_.name_of(session->second) : sender(frame),
                  view ? "a frame in several parts" : view.error().message);
  } else if (session != by_routing_id_.end()) {
    sessions_.receive(session->second, *view);
  } else if (view->header.kind == LinkFrameKind::hello) {
    handle_claim(frame, *view);
  } else {
    refusals_.add(RefusalReason::no_session, sender(frame), "a frame on a connection without a session");
  }
}

void ControlServer::handle_claim(const RouterFrame& frame, const LinkFrameView& view) {
  const auto hello = decode_frame<LinkHello>(view.body);
  if (!hello || hello->identity.incarnation != view.header.incarnation || hello->identity.run != view.header.run) {
    const Error error = hello ? Error{ErrorCode::refused, "a claim that its own header contradicts"} : hello.error();
    refusals_.add(RefusalReason::malformed, sender(frame), error.message);
    refuse(frame, error);
    return;
  }
  if (yields_(hello->identity.instance)) {
    refuse(frame, {ErrorCode::refused, std::string(kCrossedDial)});
    return;
  }
  const auto admitted = sessions_.admit(hello->identity, frame.address);
  if (!admitted) {
    refuse(frame, admitted.error());
    return;
  }
  accept(frame, hello->identity);
}

void ControlServer::accept(const RouterFrame& frame, const ProcessIdentity& claim) {
  ZmqMessage welcome(sessions_.encode_hello(LinkFrameKind::welcome));
  if (!router_.attach(frame.routing_id, frame.fd)) {
    sessions_.abandon(claim.instance);  // it has ended already
    return;
  }
  if (router_.send(frame.routing_id, welcome) != SendStatus::sent) {
    router_.detach(frame.routing_id, frame.fd);
    sessions_.abandon(claim.instance);
    return;
  }
  by_routing_id_.emplace(frame.routing_id, claim.instance);
  sessions_.open({claim, frame.address}, std::make_shared<ServerRoute>(*this, frame.routing_id, frame.fd));
}

void ControlServer::refuse(const RouterFrame& frame, const Error& error) {
  ZmqMessage refusal(sessions_.encode_refusal(LinkFrameKind::refusal, error));
  static_cast<void>(router_.send(frame.routing_id, refusal));  // gone: it needs no answer
}

void ControlServer::connection_gone(const std::string& routing_id) {
  const auto found = by_routing_id_.extract(routing_id);
  if (!found.empty()) {
    sessions_.end(found.mapped(), {ErrorCode::target_down, "its connection closed, or was silent for too long"}, false);
  }
}

}  // namespace memopd::detail

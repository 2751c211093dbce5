#include "runtime/transport/detail/control_link.hpp"

#include <algorithm>
#include <utility>

#include "runtime/transport/detail/link_options.hpp"

namespace memopd::detail {
namespace {

constexpr std::chrono::milliseconds kMaxPause{500};
constexpr std::chrono::milliseconds kGoodbyeTime{200};  // for the last frame to leave

}  // namespace

struct ControlLink::Attempt {
  explicit Attempt(const ZmqContext& context) : socket(context, ZMQ_DEALER), monitor(context, socket) {}

  ZmqSocket socket;
  SocketMonitor monitor;
};

ControlLink::ControlLink(const Dependencies& dependencies, DialRequest request, Ended ended)
    : dependencies_(dependencies), request_(std::move(request)), ended_(std::move(ended)) {}

ControlLink::~ControlLink() { end_attempt(); }

void ControlLink::start() {
  deadline_ = dependencies_.loop.after(request_.patience, [this] {
    deadline_.reset();
    finish(Error{ErrorCode::target_down,
                 request_.endpoint + ": nobody answered within " + std::to_string(request_.patience.count()) + " ms"});
  });
  begin_attempt();
}

void ControlLink::begin_attempt() {
  retry_.reset();
  attempt_ = std::make_shared<Attempt>(dependencies_.context);
  ZmqSocket& socket = attempt_->socket;
  set_curve_client(socket, dependencies_.options.key);
  set_heartbeats(socket, dependencies_.options);
  set_control_bounds(socket, dependencies_.options);
  set_single_attempt(socket, dependencies_.options);
  dependencies_.loop.watch(attempt_->monitor.socket(), [this] { read_events(); });
  dependencies_.loop.watch(socket.get(), [this] { read_frames(); });
  if (const auto connected = socket.connect(request_.endpoint); !connected) {
    finish(connected.error());
    return;
  }
  ZmqMessage hello(dependencies_.sessions.encode_hello(LinkFrameKind::hello));
  static_cast<void>(socket.send(hello));  // queued until the connection is there
}

void ControlLink::end_attempt() {
  if (attempt_) {
    dependencies_.loop.unwatch(attempt_->socket.get());
    dependencies_.loop.unwatch(attempt_->monitor.socket());
    attempt_.reset();
  }
}

void ControlLink::try_again() {
  end_attempt();
  retry_ = dependencies_.loop.after(pause_, [this] { begin_attempt(); });
  pause_ = std::min(2 * pause_, kMaxPause);
}

void ControlLink::read_events() {
  const std::shared_ptr<Attempt> attempt = attempt_;  // an event may end it
  while (attempt == attempt_) {
    const auto event = attempt->monitor.next();
    if (!event) {
      return;
    }
    switch (event->event) {
      case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        finish(Error{ErrorCode::refused,
                     request_.endpoint + ": handshake refused: another run's key, or not a process of a run"});
        return;
      case ZMQ_EVENT_CLOSED:
      case ZMQ_EVENT_DISCONNECTED:
        connection_lost();
        return;
      default:
        break;
    }
  }
}

void ControlLink::connection_lost() {
  read_frames();  // the last words, if any
  if (state_ == State::open) {
    dependencies_.sessions.end(peer_, {ErrorCode::target_down, "its connection closed, or was silent for too long"},
                               false);
  } else if (state_ == State::dialling) {
    try_again();
  }
}

void ControlLink::read_frames() {
  const std::shared_ptr<Attempt> attempt = attempt_;
  ZmqMessage frame;
  while (attempt && attempt == attempt_ && state_ != State::ended && attempt->socket.receive(frame)) {
    handle_frame(frame);
  }
}

void ControlLink::handle_frame(const ZmqMessage& frame) {
  const auto view = parse_link_frame(frame.bytes());
  if (!view) {
    if (state_ == State::open) {
      dependencies_.sessions.refuse_malformed(peer_, view.error().message);
    } else {
      finish(Error{ErrorCode::parse_error, request_.endpoint + ": " + view.error().message});
    }
  } else if (state_ == State::open) {
    dependencies_.sessions.receive(peer_, *view);
  } else if (view->header.kind == LinkFrameKind::welcome) {
    handle_welcome(*view);
  } else {
    handle_refusal(*view);
  }
}

void ControlLink::handle_welcome(const LinkFrameView& view) {
  const auto hello = decode_frame<LinkHello>(view.body);
  if (!hello) {
    finish(hello.error());
    return;
  }
  const ProcessIdentity& identity = hello->identity;
  if (request_.expected && *request_.expected != identity.instance) {
    finish(Error{ErrorCode::target_down, request_.endpoint + " is now " + to_string(identity) + ", expected instance " +
                                             to_string(*request_.expected)});
    return;
  }
  if (const auto admitted = dependencies_.sessions.admit(identity, request_.endpoint); !admitted) {
    finish(admitted.error());
    return;
  }
  dependencies_.loop.cancel(*deadline_);
  deadline_.reset();
  state_ = State::open;
  peer_ = identity.instance;
  dependencies_.sessions.open({identity, request_.endpoint}, shared_from_this());
}

void ControlLink::handle_refusal(const LinkFrameView& view) {
  if (view.header.kind != LinkFrameKind::refusal) {
    finish(Error{ErrorCode::parse_error, request_.endpoint + ": neither welcome nor refusal"});
    return;
  }
  const Error error = decode_refusal(view.body);
  if (error.message == kCrossedDial) {
    finish(std::nullopt);
    return;
  }
  finish(Error{error.code, request_.endpoint + ": refused: " + error.message});
}

void ControlLink::give_up() {
  if (state_ == State::dialling) {
    finish(std::nullopt);
  }
}

SendStatus ControlLink::send(ZmqMessage& message) {
  return attempt_ ? attempt_->socket.send(message) : SendStatus::unreachable;
}

void ControlLink::hang_up() {
  state_ = State::ended;
  if (attempt_) {
    dependencies_.loop.unwatch(attempt_->socket.get());
    dependencies_.loop.unwatch(attempt_->monitor.socket());
    // A goodbye may still be on its way: LINGER 0 would drop it.
    dependencies_.loop.after(kGoodbyeTime, [attempt = std::exchange(attempt_, nullptr)] {});
  }
  ended_(std::nullopt);
}

void ControlLink::finish(const std::optional<Error>& error) {
  if (state_ == State::ended) {
    return;
  }
  state_ = State::ended;
  for (auto* const timer : {&deadline_, &retry_}) {
    if (*timer) {
      dependencies_.loop.cancel(**timer);
      timer->reset();
    }
  }
  end_attempt();
  ended_(error);
}

}  // namespace memopd::detail

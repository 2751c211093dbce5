#include "runtime/transport/detail/session_table.hpp"

#include <array>
#include <utility>

#include "runtime/base/check.hpp"

namespace memopd::detail {

SessionTable::SessionTable(EventLoop& loop, const TransportOptions& options, const TransportHandlers& handlers,
                           RefusalLog& refusals)
    : loop_(loop),
      self_(options.self),
      max_pending_frames_(options.max_pending_frames),
      max_pending_bytes_(options.max_pending_bytes),
      handlers_(handlers),
      refusals_(refusals),
      fence_(options.self) {}

Expected<void> SessionTable::send(const InstanceId& to, std::span<const std::byte> body) {
  if (body.size() > kMaxControlFrameBytes) {
    return unexpected(ErrorCode::invalid_argument,
                      "message of " + std::to_string(body.size()) + " bytes exceeds the control frame limit of " +
                          std::to_string(kMaxControlFrameBytes) + " bytes: send large payloads over the bulk path");
  }
  std::shared_ptr<Outbox> outbox;
  {
    const std::lock_guard lock(mutex_);
    const auto found = outboxes_.find(to);
    if (found == outboxes_.end()) {
      return unexpected(ErrorCode::target_down, "no link to instance " + to_string(to));
    }
    outbox = found->second;
  }
  auto is_first = outbox->push(encode_link_frame({LinkFrameKind::data, self_.run, self_.incarnation, 0}, body));
  MEMOPD_RETURN_IF_ERROR(is_first);
  if (*is_first) {
    loop_.post([this, to] { flush(to); });
  }
  return {};
}

TransportCounters SessionTable::counters() const {
  return {frames_sent_.load(), frames_received_.load(), bytes_sent_.load(), bytes_received_.load(), {}};
}

Expected<void> SessionTable::admit(const ProcessIdentity& claim, const std::string& address) {
  const Fence::Verdict verdict = fence_.admit(claim);
  if (verdict.refusal) {
    const auto& [reason, error] = *verdict.refusal;
    refusals_.add(reason, to_string(Peer{claim, address}), error.message);
    return unexpected(error);
  }
  if (verdict.superseded) {
    end(*verdict.superseded, {ErrorCode::refused, "replaced by " + to_string(claim)}, true);
  }
  return {};
}

void SessionTable::open(Peer peer, std::shared_ptr<Route> route) {
  const InstanceId instance = peer.identity.instance;
  auto outbox = std::make_shared<Outbox>(max_pending_frames_, max_pending_bytes_);
  const auto [entry, is_new] = sessions_.try_emplace(instance, Session{peer, outbox, std::move(route)});
  MEMOPD_CHECK(is_new, "a second session of one instance");
  {
    const std::lock_guard lock(mutex_);
    outboxes_.emplace(instance, std::move(outbox));
  }
  if (handlers_.on_peer_up) {
    handlers_.on_peer_up(peer);
  }
}

void SessionTable::flush(const InstanceId& to) {
  const auto found = sessions_.find(to);
  if (found == sessions_.end()) {
    return;
  }
  Session& session = found->second;
  for (Outbox::Frame& frame : session.outbox->take()) {
    const std::size_t size = frame.size() - kLinkHeaderBytes;
    if (!send_frame(session, std::move(frame))) {
      end(to, {ErrorCode::target_down, "the connection takes no more frames"}, false);
      return;
    }
    frames_sent_ += 1;
    bytes_sent_ += static_cast<std::int64_t>(size);
  }
}

bool SessionTable::send_frame(Session& session, std::vector<std::byte> frame) {
  stamp_sequence(frame, session.next_sequence++);
  ZmqMessage message = session.outbox->to_message(std::move(frame));
  return session.route->send(message) == SendStatus::sent;
}

bool SessionTable::is_fresh(Session& session, const LinkHeader& header) {
  const auto refuse = [&](RefusalReason reason, const char* what, std::uint64_t found, std::uint64_t known) {
    refusals_.add(reason, to_string(session.peer),
                  std::string(what) + " " + std::to_string(found) + " after " + std::to_string(known));
    return false;
  };
  if (header.run != self_.run) {
    refusals_.add(RefusalReason::wrong_run, to_string(session.peer), "frame of run " + to_string(header.run));
    return false;
  }
  if (header.incarnation != session.peer.identity.incarnation) {
    return refuse(RefusalReason::stale_incarnation, "frame of incarnation", header.incarnation,
                  session.peer.identity.incarnation);
  }
  if (header.sequence <= session.last_sequence) {
    return refuse(RefusalReason::stale_sequence, "frame with sequence", header.sequence, session.last_sequence);
  }
  session.last_sequence = header.sequence;
  return true;
}

void SessionTable::receive(const InstanceId& from, const LinkFrameView& frame) {
  const auto found = sessions_.find(from);
  if (found == sessions_.end()) {
    return;
  }
  Session& session = found->second;
  if (frame.header.kind == LinkFrameKind::hello) {
    refusals_.add(RefusalReason::duplicate, to_string(session.peer), "a second claim on one connection");
  } else if (is_fresh(session, frame.header)) {
    switch (frame.header.kind) {
      case LinkFrameKind::data:
        return deliver(session, frame.body);
      case LinkFrameKind::goodbye:
        return end(from, decode_refusal(frame.body), false);
      default:
        refusals_.add(RefusalReason::malformed, to_string(session.peer), "a frame of that kind has no place here");
    }
  }
}

void SessionTable::deliver(const Session& session, std::span<const std::byte> body) {
  if (handlers_.on_message) {
    if (const auto accepted = handlers_.on_message(session.peer, body); !accepted) {
      refusals_.add(RefusalReason::bad_payload, to_string(session.peer), accepted.error().message);
      return;
    }
  }
  frames_received_ += 1;
  bytes_received_ += static_cast<std::int64_t>(body.size());
}

void SessionTable::refuse_malformed(const InstanceId& from, const std::string& message) {
  refusals_.add(RefusalReason::malformed, name_of(from), message);
}

std::string SessionTable::name_of(const InstanceId& instance) const {
  const auto found = sessions_.find(instance);
  return found == sessions_.end() ? "instance " + to_string(instance) : to_string(found->second.peer);
}

void SessionTable::end(const InstanceId& instance, const Error& reason, bool tell_peer) {
  const auto found = sessions_.find(instance);
  if (found == sessions_.end()) {
    return;
  }
  Session session = std::move(found->second);
  sessions_.erase(found);
  fence_.release(instance);
  {
    const std::lock_guard lock(mutex_);
    outboxes_.erase(instance);
  }
  session.outbox->close();
  if (tell_peer) {
    static_cast<void>(send_frame(session, encode_refusal(LinkFrameKind::goodbye, reason)));
  }
  session.route->hang_up();
  if (handlers_.on_peer_down) {
    handlers_.on_peer_down(session.peer, reason);
  }
}

std::vector<std::byte> SessionTable::encode(LinkFrameKind kind, std::span<const std::byte> body) const {
  return encode_link_frame({kind, self_.run, self_.incarnation, 0}, body);
}

std::vector<std::byte> SessionTable::encode_hello(LinkFrameKind kind) const {
  const auto body = encode_frame(LinkHello{self_});
  MEMOPD_CHECK(body.has_value(), "an identity above the frame limit");
  return encode(kind, *body);
}

std::vector<std::byte> SessionTable::encode_refusal(LinkFrameKind kind, const Error& error) const {
  constexpr std::size_t kMaxText = 4096;
  const auto body = encode_frame(LinkRefusal{std::string(to_string(error.code)), error.message.substr(0, kMaxText)});
  MEMOPD_CHECK(body.has_value(), "a refusal above the frame limit");
  return encode(kind, *body);
}

Error decode_refusal(std::span<const std::byte> body) {
  const auto refusal = decode_frame<LinkRefusal>(body);
  if (!refusal) {
    return {ErrorCode::refused, "refused without a readable reason: " + refusal.error().message};
  }
  for (const ErrorCode code : {ErrorCode::already_exists, ErrorCode::bad_schema, ErrorCode::target_down}) {
    if (refusal->code == to_string(code)) {
      return {code, refusal->message};
    }
  }
  return {ErrorCode::refused, refusal->message};
}

}  // namespace memopd::detail

// SessionTable: the living links of a process, one for each peer: who may have one, what passes over it, how it ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "runtime/transport/detail/event_loop.hpp"
#include "runtime/transport/detail/fence.hpp"
#include "runtime/transport/detail/outbox.hpp"
#include "runtime/transport/link_frame.hpp"
#include "runtime/transport/transport.hpp"

namespace memopd::detail {

/// How frames of a session leave, whichever side dialled.
class Route {
 public:
  virtual ~Route() = default;
  [[nodiscard]] virtual SendStatus send(ZmqMessage& message) = 0;
  /// The session is over; nothing more will be sent.
  virtual void hang_up() = 0;
};

/// On the loop's thread, but for send() and counters().
class SessionTable {
 public:
  SessionTable(EventLoop& loop, const TransportOptions& options, const TransportHandlers& handlers,
               RefusalLog& refusals);

  /// Any thread. As Transport::send.
  Expected<void> send(const InstanceId& to, std::span<const std::byte> body);
  /// Any thread; all but `refused`.
  [[nodiscard]] TransportCounters counters() const;

  /// Whether `claim` may have a session. An earlier incarnation of its role loses its own. A refusal is counted.
  Expected<void> admit(const ProcessIdentity& claim, const std::string& address);
  /// Takes an admission back that came to nothing.
  void abandon(const InstanceId& instance) { fence_.release(instance); }
  /// After admit(): the session begins; on_peer_up.
  void open(Peer peer, std::shared_ptr<Route> route);
  [[nodiscard]] bool contains(const InstanceId& instance) const { return sessions_.contains(instance); }
  /// A frame that came over the route of this session.
  void receive(const InstanceId& from, const LinkFrameView& frame);
  void refuse_malformed(const InstanceId& from, const std::string& message);
  /// As refusals name it.
  [[nodiscard]] std::string name_of(const InstanceId& instance) const;
  /// on_peer_down; nothing if there is no such session. `tell_peer`: it gets a goodbye.
  void end(const InstanceId& instance, const Error& reason, bool tell_peer);

  /// A frame without a session: hello, welcome, refusal.
  [[nodiscard]] std::vector<std::byte> encode(LinkFrameKind kind, std::span<const std::byte> body) const;
  [[nodiscard]] std::vector<std::byte> encode_hello(LinkFrameKind kind) const;
  [[nodiscard]] std::vector<std::byte> encode_refusal(LinkFrameKind kind, const Error& error) const;

 private:
  struct Session {
    Peer peer;
    std::shared_ptr<Outbox> outbox;
    std::shared_ptr<Route> route;
    std::uint64_t next_sequence = 1;
    std::uint64_t last_sequence = 0;
  };
  void flush(const InstanceId& to);
  [[nodiscard]] bool send_frame(Session& session, std::vector<std::byte> frame);
  [[nodiscard]] bool is_fresh(Session& session, const LinkHeader& header);
  void deliver(const Session& session, std::span<const std::byte> body);

  EventLoop& loop_;
  const ProcessIdentity self_;
  const std::int32_t max_pending_frames_;
  const std::int64_t max_pending_bytes_;
  const TransportHandlers& handlers_;
  RefusalLog& refusals_;
  Fence fence_;
  std::map<InstanceId, Session> sessions_;

  std::atomic<std::int64_t> frames_sent_{0};
  std::atomic<std::int64_t> frames_received_{0};
  std::atomic<std::int64_t> bytes_sent_{0};
  std::atomic<std::int64_t> bytes_received_{0};

  std::mutex mutex_;  // guards what follows
  std::map<InstanceId, std::shared_ptr<Outbox>> outboxes_;
};

/// What a refusal or goodbye of a peer says.
[[nodiscard]] Error decode_refusal(std::span<const std::byte> body);

}  // namespace memopd::detail

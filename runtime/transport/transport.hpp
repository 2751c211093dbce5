// Transport: the links of a process to the other processes of its run. "Deliver these bytes to peer P"; no actors here.
//
// R5    one thread owns all sockets; every callback runs on it and must not block.
// R6    the first frame of a connection declares who speaks and is bound to it; a second claim on a living instance or
//       role is refused, both named. A link that has ended is never revived: a new one starts with an empty queue.
// R7    CURVE always; only the run's key is admitted; every queue is bounded.
// CL-2  a frame of another run, of an earlier incarnation or with a sequence that was there is refused and counted.
// Order FIFO from one process to another while their link lives. What was sent on a link that ends may be lost: whoever
//       waits for an answer fails its calls in on_peer_down.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/transport/bulk.hpp"
#include "runtime/transport/identity.hpp"
#include "runtime/transport/listen.hpp"
#include "runtime/transport/refusal.hpp"
#include "runtime/transport/run_key.hpp"

namespace memopd {

struct TransportOptions {
  RunKey key;
  ProcessIdentity self;
  ListenOptions listen;
  std::chrono::milliseconds heartbeat_interval{500};  ///< ZMTP pings of both contexts; >= 1
  std::chrono::milliseconds dead_after{2000};         ///< silence that ends a connection; >= heartbeat_interval
  std::chrono::milliseconds handshake_timeout{5000};  ///< for a stranger to prove that it is none; >= 1
  std::int32_t max_pending_frames = 4096;             ///< to one peer, not yet with the kernel; >= 1
  std::int64_t max_pending_bytes = 16 << 20;          ///< likewise; >= 1; a single frame may exceed it
  BulkOptions bulk = {};
};

struct Peer {
  ProcessIdentity identity;
  std::string address;  ///< as the socket shows it
};

/// `student/0 (instance .., incarnation 2) at tcp://..`
[[nodiscard]] std::string to_string(const Peer& peer);

struct DialRequest {
  std::string endpoint;
  /// Who is expected there. Without it the two sides must not dial each other at the same time.
  std::optional<InstanceId> expected;
  std::chrono::milliseconds patience{5000};  ///< how long a silent or closed endpoint is tried again; >= 0
};

/// All optional. Called on the socket thread.
struct TransportHandlers {
  /// A link is up; frames of this peer follow.
  std::function<void(const Peer&)> on_peer_up = nullptr;
  /// It is down, once for each on_peer_up. Code target_down, or refused when the peer or close() ended it.
  std::function<void(const Peer&, const Error& reason)> on_peer_down = nullptr;
  /// An error means: of unknown schema, or garbage. It is counted and logged with the sender's name.
  std::function<Expected<void>(const Peer&, std::span<const std::byte> body)> on_message = nullptr;
  /// dial() came to nothing.
  ///   target_down  nobody there within the patience, or somebody else than expected
  ///   refused, already_exists, bad_schema  the peer's refusal, or a handshake with another key
  std::function<void(const DialRequest&, const Error&)> on_dial_failed = nullptr;
  std::function<void(const Refused&)> on_refused = nullptr;
};

struct TransportCounters {
  std::int64_t frames_sent = 0;
  std::int64_t frames_received = 0;  ///< and accepted
  std::int64_t bytes_sent = 0;       ///< bodies
  std::int64_t bytes_received = 0;
  RefusalCounts refused;
};

/// Thread-safe. Destroy it outside its callbacks; it ends every link without on_peer_down.
class Transport {
 public:
  virtual ~Transport() = default;

  /// Binds, starts the thread. Nobody is linked yet.
  /// @error invalid_argument  an option out of range
  /// @error already_exists, io_error, refused  as binding says
  [[nodiscard]] static Expected<std::unique_ptr<Transport>> start(TransportOptions options, TransportHandlers handlers);

  /// Where others dial; ipc first.
  [[nodiscard]] virtual const std::vector<std::string>& endpoints() const = 0;

  /// Links with the process behind `endpoint`: ends in one on_peer_up or on_dial_failed, or in nothing when that instance
  /// is linked already. Of two processes that dial each other at once, one link remains.
  virtual void dial(DialRequest request) = 0;
  /// Accepts `body` for delivery. Never blocks; copies.
  /// @error target_down       no living link to this instance
  /// @error overloaded        the peer takes frames slower than they come; nothing was sent
  /// @error invalid_argument  above kMaxControlFrameBytes; names the bulk path
  virtual Expected<void> send(const InstanceId& to, std::span<const std::byte> body) = 0;
  /// Ends the link; the other side learns `reason`. Nothing if there is none.
  virtual void close(const InstanceId& peer, std::string reason) = 0;

  [[nodiscard]] virtual Bulk& bulk() = 0;
  [[nodiscard]] virtual TransportCounters counters() const = 0;
};

}  // namespace memopd

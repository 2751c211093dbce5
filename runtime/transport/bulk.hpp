// Bulk: large payloads from process to process, beside the control links and never in their way (R3).
//
// A process publishes bytes and gets a ticket, which the user sends over control. Whoever holds the ticket fetches the
// bytes straight into its final buffer, in chunks, as far ahead as its window allows. Own ZeroMQ context; PLAIN with the
// token of the ticket, or CURVE with the run's key when `encrypt` is set.
// B1  a finished fetch has the size and the SHA-256 of its ticket.
// B2  published bytes live until withdraw() and until ZeroMQ has let go of the last chunk, whichever is later.
// B3  a stalled receiver holds `window` chunks of the sender's buffer and nothing of its own.
// B4  every fetch calls `done` once.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "runtime/base/expected.hpp"
#include "runtime/transport/identity.hpp"
#include "runtime/transport/sha256.hpp"

namespace memopd {

struct BulkOptions {
  bool encrypt = false;                            ///< CURVE instead of PLAIN; the same in every process of a run
  std::uint32_t chunk_bytes = 512 << 10;           ///< 256 KiB..1 MiB
  std::int32_t window = 8;                         ///< chunks asked for ahead; 1..32
  std::chrono::milliseconds stall_timeout{10000};  ///< without a chunk, reconnects included; >= 1
};

/// Leave to fetch one object. Whoever has it may read: it travels over control only.
struct BulkTicket {
  std::string endpoint;
  std::string token;  ///< of the process that published
  BulkObjectId object;
  std::uint64_t size_bytes = 0;
  std::uint32_t chunk_bytes = 0;
  Sha256Digest sha256{};
};
MEMOPD_FIELDS(BulkTicket, endpoint, token, object, size_bytes, chunk_bytes, sha256)

/// Immutable bytes and what keeps them alive; released on ZeroMQ's I/O thread or on the caller of withdraw().
struct BulkSource {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};

/// The final buffer and what keeps it alive. Nobody else touches it before `done`.
struct BulkTarget {
  std::shared_ptr<void> owner;
  std::span<std::byte> bytes;
};

struct BulkCounters {
  std::int64_t bytes_sent = 0;
  std::int64_t bytes_received = 0;
  std::int64_t chunks_in_flight = 0;  ///< now: given to ZeroMQ and not yet released
  std::int64_t num_resumed = 0;       ///< fetches that went on after a reconnect
};

using FetchId = std::uint64_t;

/// Thread-safe.
class Bulk {
 public:
  /// On the socket thread; must not block.
  using Done = std::function<void(Expected<void>)>;

  virtual ~Bulk() = default;

  /// Offers `source`. O(bytes): hashes them on this thread.
  [[nodiscard]] virtual BulkTicket publish(BulkSource source) = 0;
  /// No new fetch of it; running ones end.
  virtual void withdraw(const BulkObjectId& object) = 0;
  /// Fetches into `target`, whose size is the ticket's. Resumes after a lost connection at the last whole chunk.
  ///   invalid_argument  a target or ticket that does not fit
  ///   not_found         not published there, or withdrawn
  ///   refused           another token or key; abort()
  ///   overloaded        the owner serves too many fetches of this process
  ///   parse_error       bytes that are not those of the ticket; the owner is named
  ///   timeout           connected, but no chunk within stall_timeout
  ///   target_down       not connected for that long, or this transport ended
  virtual FetchId fetch(BulkTicket ticket, BulkTarget target, Done done) = 0;
  /// Ends a fetch with `refused`; nothing if it has ended.
  virtual void abort(FetchId fetch) = 0;
  [[nodiscard]] virtual BulkCounters counters() const = 0;
};

}  // namespace memopd

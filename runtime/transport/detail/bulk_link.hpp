// BulkLink: the fetching end of one bulk connection: what is fetched over it, and how it comes back after a cut.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runtime/transport/detail/bulk_frame.hpp"
#include "runtime/transport/detail/event_loop.hpp"
#include "runtime/transport/detail/socket_monitor.hpp"
#include "runtime/transport/transport.hpp"

namespace memopd::detail {

/// One fetch on its way.
struct Incoming {
  BulkTicket ticket;
  BulkTarget target;
  std::uint64_t offset = 0;  ///< bytes that are there
  EventLoop::Clock::time_point last_progress;
  std::optional<EventLoop::TimerId> watchdog;
};

struct BulkLinkCallbacks {
  /// Bytes [begin, begin + size) of the target are there.
  std::function<void(FetchId, const Incoming&, std::uint64_t begin, std::size_t size)> on_chunk;
  /// The fetch has left the link: with all its bytes, or with an error.
  std::function<void(FetchId, Incoming, std::optional<Error>)> on_end;
  std::function<void()> on_resumed;
};

/// On the loop's thread.
class BulkLink {
 public:
  BulkLink(EventLoop& loop, const ZmqContext& context, const TransportOptions& options, std::string endpoint,
           std::string token, BulkLinkCallbacks callbacks);
  ~BulkLink();
  BulkLink(const BulkLink&) = delete;
  BulkLink& operator=(const BulkLink&) = delete;

  void add(FetchId fetch, Incoming incoming);
  /// False if this link has no such fetch.
  bool abort(FetchId fetch, const Error& error);
  void abort_all(const Error& error);

 private:
  struct Attempt;
  void begin_attempt();
  void end_attempt();
  void start_waiting();
  void request(FetchId fetch, const Incoming& incoming);
  void read_events();
  void read_chunks();
  void handle_message(const ZmqMessage& head, const ZmqMessage& body);
  void handle_chunk(const BulkChunk& chunk, std::span<const std::byte> bytes);
  void handle_failure(const BulkFailure& failure);
  void connection_lost();
  void watch_progress(FetchId fetch);
  void finish(FetchId fetch, std::optional<Error> error);
  template <class T>
  void send(const T& message);

  EventLoop& loop_;
  const ZmqContext& context_;
  const TransportOptions& options_;
  const std::string endpoint_;
  const std::string token_;
  const BulkLinkCallbacks callbacks_;
  std::map<FetchId, Incoming> active_;
  std::deque<std::pair<FetchId, Incoming>> waiting_;
  bool is_connected_ = false;
  std::chrono::milliseconds pause_{0};  // before the next attempt
  std::optional<EventLoop::TimerId> retry_;
  std::shared_ptr<Attempt> attempt_;
};

}  // namespace memopd::detail

// BulkServer: serves published bytes in chunks without copying them, as far as each receiver's credits go.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/transport/detail/bulk_frame.hpp"
#include "runtime/transport/detail/router_socket.hpp"
#include "runtime/transport/refusal.hpp"
#include "runtime/transport/transport.hpp"

namespace memopd::detail {

/// On the loop's thread, but for add, remove and the counters.
class BulkServer {
 public:
  BulkServer(EventLoop& loop, const ZmqContext& context, const TransportOptions& options, RefusalLog& refusals);

  [[nodiscard]] ZmqSocket& socket() { return router_.socket(); }
  void add(const BulkObjectId& object, BulkSource source);
  void remove(const BulkObjectId& object);
  [[nodiscard]] std::int64_t bytes_sent() const { return bytes_sent_.load(); }
  [[nodiscard]] std::int64_t chunks_in_flight() const { return in_flight_->load(); }

 private:
  struct Outgoing {
    BulkObjectId object;
    BulkSource source;
    std::uint64_t offset = 0;
    std::uint32_t credits = 0;
  };
  using Key = std::pair<std::string, std::uint64_t>;  // routing id, transfer
  using Outgoings = std::map<Key, Outgoing>;

  void handle_frame(const RouterFrame& frame);
  [[nodiscard]] Expected<void> handle_parsed(const RouterFrame& frame, const FrameView& view);
  [[nodiscard]] Expected<void> start(const RouterFrame& frame, const BulkRequest& request);
  [[nodiscard]] Expected<void> check_request(const std::string& routing_id, const BulkRequest& request,
                                             const BulkSource& source) const;
  [[nodiscard]] Expected<BulkSource> find(const BulkObjectId& object) const;
  void add_credits(const Key& key, std::uint32_t count);
  /// Sends what the credits allow; ends the transfer when all is sent.
  void pump(Outgoings::iterator transfer);
  [[nodiscard]] bool send_chunk(const Key& key, Outgoing& outgoing);
  void fail(const std::string& routing_id, std::uint64_t transfer, const Error& error);
  void connection_gone(const std::string& routing_id);

  const std::uint32_t chunk_bytes_;
  RefusalLog& refusals_;
  const std::shared_ptr<std::atomic<std::int64_t>> in_flight_ = std::make_shared<std::atomic<std::int64_t>>(0);
  std::atomic<std::int64_t> bytes_sent_{0};
  Outgoings outgoing_;

  mutable std::mutex mutex_;  // guards objects_
  std::map<BulkObjectId, BulkSource> objects_;

  RouterSocket router_;
};

}  // namespace memopd::detail

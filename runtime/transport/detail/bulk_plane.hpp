// BulkPlane: the bulk context of a process: what it publishes and what it fetches.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "runtime/transport/bulk.hpp"
#include "runtime/transport/detail/bulk_link.hpp"
#include "runtime/transport/detail/bulk_server.hpp"
#include "runtime/transport/detail/hash_thread.hpp"
#include "runtime/transport/detail/zap_handler.hpp"

namespace memopd::detail {

class BulkPlane final : public Bulk {
 public:
  BulkPlane(EventLoop& loop, const ZmqContext& context, const TransportOptions& options, RefusalLog& refusals);
  /// After the loop has stopped: ends what runs with target_down.
  ~BulkPlane() override;

  /// Before the loop runs.
  [[nodiscard]] Expected<void> listen();

  [[nodiscard]] BulkTicket publish(BulkSource source) override;
  void withdraw(const BulkObjectId& object) override { server_.remove(object); }
  FetchId fetch(BulkTicket ticket, BulkTarget target, Done done) override;
  void abort(FetchId fetch) override;
  [[nodiscard]] BulkCounters counters() const override;

 private:
  /// A fetch and the hash of what has come; only HashThread touches the hash.
  struct Fetch {
    Done done;
    std::shared_ptr<Sha256> hash = std::make_shared<Sha256>();
  };
  /// A fetch that was asked for; answered even if the loop never gets to it.
  struct Order {
    Order(BulkTicket what, BulkTarget where, Done then)
        : ticket(std::move(what)), target(std::move(where)), done(std::move(then)) {}
    ~Order();
    Order(const Order&) = delete;
    Order& operator=(const Order&) = delete;

    BulkTicket ticket;
    BulkTarget target;
    Done done;
  };
  using LinkKey = std::pair<std::string, std::string>;  // endpoint, token

  [[nodiscard]] bool is_admitted(const ZapRequest& request) const;
  void start(FetchId id, Order& order);
  [[nodiscard]] BulkLink& link_to(const BulkTicket& ticket);
  void hash_chunk(FetchId id, const Incoming& incoming, std::uint64_t begin, std::size_t size);
  void link_done(FetchId id, Incoming incoming, std::optional<Error> error);
  void verify(FetchId id, Incoming incoming);
  void complete(FetchId id, const Expected<void>& result);

  EventLoop& loop_;
  const ZmqContext& context_;
  const TransportOptions& options_;
  const std::string token_;
  const std::string member_key_;  // 32 bytes
  ZapHandler zap_;
  BulkServer server_;
  std::string endpoint_;
  std::atomic<FetchId> last_fetch_{0};
  std::atomic<std::int64_t> bytes_received_{0};
  std::atomic<std::int64_t> num_resumed_{0};
  std::map<FetchId, Fetch> fetches_;
  std::map<LinkKey, std::unique_ptr<BulkLink>> links_;
  std::unique_ptr<HashThread> hash_thread_;
};

}  // namespace memopd::detail

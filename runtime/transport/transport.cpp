#include "runtime/transport/transport.hpp"

#include <thread>
#include <utility>

#include "runtime/transport/detail/bulk_frame.hpp"
#include "runtime/transport/detail/bulk_plane.hpp"
#include "runtime/transport/detail/control_plane.hpp"

namespace memopd {
namespace {

Unexpected out_of_range(const char* name, std::int64_t value, const char* allowed) {
  return unexpected(ErrorCode::invalid_argument,
                    std::string("transport: ") + name + " " + std::to_string(value) + ", allowed " + allowed);
}

Expected<void> check_options(const TransportOptions& options) {
  constexpr std::int64_t kMaxMilliseconds = 6'553'500;  // what ZMTP can say
  constexpr std::int32_t kMaxFrames = 1 << 20;
  const std::int64_t interval = options.heartbeat_interval.count();
  const std::int64_t dead_after = options.dead_after.count();
  const std::int64_t handshake = options.handshake_timeout.count();
  if (interval < 1 || interval > kMaxMilliseconds) {
    return out_of_range("heartbeat_interval_ms", interval, "1..6553500");
  }
  if (dead_after < interval || dead_after > kMaxMilliseconds) {
    return out_of_range("dead_after_ms", dead_after, "heartbeat_interval_ms..6553500");
  }
  if (handshake < 1 || handshake > kMaxMilliseconds) {
    return out_of_range("handshake_timeout_ms", handshake, "1..6553500");
  }
  if (options.max_pending_frames < 1 || options.max_pending_frames > kMaxFrames) {
    return out_of_range("max_pending_frames", options.max_pending_frames, "1..1048576");
  }
  if (options.max_pending_bytes < 1) {
    return out_of_range("max_pending_bytes", options.max_pending_bytes, ">= 1");
  }
  if (options.bulk.chunk_bytes < detail::kMinChunkBytes || options.bulk.chunk_bytes > detail::kMaxChunkBytes) {
    return out_of_range("bulk.chunk_bytes", options.bulk.chunk_bytes, "262144..1048576");
  }
  if (options.bulk.window < 1 || options.bulk.window > static_cast<std::int32_t>(detail::kMaxWindow)) {
    return out_of_range("bulk.window", options.bulk.window, "1..32");
  }
  if (options.bulk.stall_timeout.count() < 1) {
    return out_of_range("bulk.stall_timeout_ms", options.bulk.stall_timeout.count(), ">= 1");
  }
  return {};
}

class ZmqTransport final : public Transport {
 public:
  ZmqTransport(TransportOptions options, TransportHandlers handlers)
      : options_(std::move(options)),
        handlers_(std::move(handlers)),
        refusals_(handlers_.on_refused),
        control_(loop_, control_context_, options_, handlers_, refusals_),
        bulk_(loop_, bulk_context_, options_, refusals_) {}

  ~ZmqTransport() override {
    if (thread_.joinable()) {
      loop_.stop();
      thread_.join();
    }
  }

  Expected<void> listen() {
    auto endpoints = control_.listen();
    MEMOPD_RETURN_IF_ERROR(endpoints);
    endpoints_ = *std::move(endpoints);
    MEMOPD_RETURN_IF_ERROR(bulk_.listen());
    thread_ = std::thread([this] { loop_.run(); });
    return {};
  }

  [[nodiscard]] const std::vector<std::string>& endpoints() const override { return endpoints_; }

  void dial(DialRequest request) override {
    loop_.post([this, request = std::move(request)] { control_.dial(request); });
  }

  Expected<void> send(const InstanceId& to, std::span<const std::byte> body) override {
    return control_.sessions().send(to, body);
  }

  void close(const InstanceId& peer, std::string reason) override {
    loop_.post([this, peer, reason = std::move(reason)] {
      control_.sessions().end(peer, {ErrorCode::refused, reason}, true);
    });
  }

  [[nodiscard]] Bulk& bulk() override { return bulk_; }

  [[nodiscard]] TransportCounters counters() const override {
    TransportCounters counters = control_.sessions().counters();
    counters.refused = refusals_.counts();
    return counters;
  }

 private:
  const TransportOptions options_;
  const TransportHandlers handlers_;
  detail::RefusalLog refusals_;
  // Sockets, then the loop that may hold some, then the contexts: the reverse of this order.
  detail::ZmqContext control_context_;
  detail::ZmqContext bulk_context_;
  detail::EventLoop loop_;
  detail::ControlPlane control_;
  detail::BulkPlane bulk_;
  std::vector<std::string> endpoints_;
  std::thread thread_;
};

}  // namespace

std::string to_string(const Peer& peer) { return to_string(peer.identity) + " at " + peer.address; }

Expected<std::unique_ptr<Transport>> Transport::start(TransportOptions options, TransportHandlers handlers) {
  MEMOPD_RETURN_IF_ERROR(check_options(options));
  auto transport = std::make_unique<ZmqTransport>(std::move(options), std::move(handlers));
  MEMOPD_RETURN_IF_ERROR(transport->listen());
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace memopd

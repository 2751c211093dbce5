#include "runtime/transport/detail/bulk_server.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/transport/detail/link_options.hpp"

namespace memopd::detail {
namespace {

constexpr int kRequestsPerTurn = 64;
// Chunks of one connection that can be queued: twice, since ZeroMQ counts up to half of its queue late.
constexpr int kMaxChunksOut = 2 * static_cast<int>(kMaxTransfersPerConnection * kMaxWindow) + 64;

/// What a chunk in ZeroMQ's hands keeps alive.
struct Lease {
  std::shared_ptr<const void> owner;
  std::shared_ptr<std::atomic<std::int64_t>> in_flight;
  std::atomic<bool> is_complete{false};  // orders the I/O thread's release after the construction
};

void release_lease(void* /*data*/, void* hint) {
  const std::unique_ptr<Lease> lease(static_cast<Lease*>(hint));
  static_cast<void>(lease->is_complete.load(std::memory_order_acquire));
  *lease->in_flight -= 1;
}

template <class T>
ZmqMessage message_of(const T& message) {
  const auto frame = encode_frame(message);
  MEMOPD_CHECK(frame.has_value(), "a bulk frame above the limit");
  return ZmqMessage(*frame);
}

}  // namespace

BulkServer::BulkServer(EventLoop& loop, const ZmqContext& context, const TransportOptions& options,
                       RefusalLog& refusals)
    : chunk_bytes_(options.bulk.chunk_bytes),
      refusals_(refusals),
      router_(loop, context, kRequestsPerTurn,
              {[this](const RouterFrame& frame) { handle_frame(frame); },
               [this](const std::string& routing_id) { connection_gone(routing_id); },
               [this](const std::string& address, const std::string& message) {
                 refusals_.add(RefusalReason::stranger, address, "bulk: " + message);
               }}) {
  if (options.bulk.encrypt) {
    set_curve_server(router_.socket(), options.key);
  } else {
    router_.socket().set(ZMQ_PLAIN_SERVER, 1);
    router_.socket().set(ZMQ_ZAP_DOMAIN, kZapDomain);
  }
  set_heartbeats(router_.socket(), options);
  set_bounds(router_.socket(), kMaxChunksOut, kMaxChunksOut, kMaxBulkRequestBytes);
}

void BulkServer::add(const BulkObjectId& object, BulkSource source) {
  const std::lock_guard lock(mutex_);
  objects_.emplace(object, std::move(source));
}

void BulkServer::remove(const BulkObjectId& object) {
  BulkSource removed;  // released outside the lock
  const std::lock_guard lock(mutex_);
  if (const auto found = objects_.find(object); found != objects_.end()) {
    removed = std::move(found->second);
    objects_.erase(found);
  }
}

Expected<BulkSource> BulkServer::find(const BulkObjectId& object) const {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(object);
  if (found == objects_.end()) {
    return unexpected(ErrorCode::not_found, "object " + to_string(object) + " is not published here, or withdrawn");
  }
  return found->second;
}

void BulkServer::handle_frame(const RouterFrame& frame) {
  const auto view = parse_frame(frame.body.bytes());
  auto handled = view && !frame.is_multipart ? handle_parsed(frame, *view)
                                             : Expected<void>(unexpected(ErrorCode::parse_error, "not a bulk request"));
  if (!handled) {
    refusals_.add(RefusalReason::malformed, "member at " + frame.address, "bulk: " + handled.error().message);
  }
}

Expected<void> BulkServer::handle_parsed(const RouterFrame& frame, const FrameView& view) {
  const auto bytes = frame.body.bytes();
  if (view.name == message_type<BulkRequest>().name.name) {
    const auto request = decode_frame<BulkRequest>(bytes);
    MEMOPD_RETURN_IF_ERROR(request);
    if (const auto started = start(frame, *request); !started) {
      fail(frame.routing_id, request->transfer, started.error());
    }
    return {};
  }
  if (view.name == message_type<BulkCredit>().name.name) {
    const auto credit = decode_frame<BulkCredit>(bytes);
    MEMOPD_RETURN_IF_ERROR(credit);
    add_credits({frame.routing_id, credit->transfer}, credit->count);
    return {};
  }
  const auto cancel = decode_frame<BulkCancel>(bytes);
  MEMOPD_RETURN_IF_ERROR(cancel);
  outgoing_.erase({frame.routing_id, cancel->transfer});
  return {};
}

Expected<void> BulkServer::check_request(const std::string& routing_id, const BulkRequest& request,
                                         const BulkSource& source) const {
  const auto first = outgoing_.lower_bound({routing_id, 0});
  const auto num_running =
      std::count_if(first, outgoing_.end(), [&](const auto& e) { return e.first.first == routing_id; });
  if (outgoing_.contains({routing_id, request.transfer})) {
    return unexpected(ErrorCode::refused, "transfer " + std::to_string(request.transfer) + " runs already");
  }
  if (static_cast<std::size_t>(num_running) >= kMaxTransfersPerConnection) {
    return unexpected(ErrorCode::overloaded, std::to_string(num_running) + " transfers run, at most " +
                                                 std::to_string(kMaxTransfersPerConnection) + " may");
  }
  if (request.offset % chunk_bytes_ != 0 || request.offset > source.bytes.size()) {
    return unexpected(ErrorCode::invalid_argument, "offset " + std::to_string(request.offset) + " of " +
                                                       std::to_string(source.bytes.size()) + " bytes, chunks of " +
                                                       std::to_string(chunk_bytes_));
  }
  return {};
}

Expected<void> BulkServer::start(const RouterFrame& frame, const BulkRequest& request) {
  auto source = find(request.object);
  MEMOPD_RETURN_IF_ERROR(source);
  MEMOPD_RETURN_IF_ERROR(check_request(frame.routing_id, request, *source));
  if (!router_.attach(frame.routing_id, frame.fd)) {
    return {};  // it has ended already
  }
  const auto entry = outgoing_.emplace(Key{frame.routing_id, request.transfer},
                                       Outgoing{request.object, *std::move(source), request.offset, 0});
  entry.first->second.credits = std::min(request.window, kMaxWindow);
  pump(entry.first);
  return {};
}

void BulkServer::add_credits(const Key& key, std::uint32_t count) {
  const auto found = outgoing_.find(key);
  if (found != outgoing_.end()) {  // the last credits of a transfer come after its end
    found->second.credits = std::min(kMaxWindow, found->second.credits + std::min(count, kMaxWindow));
    pump(found);
  }
}

void BulkServer::pump(Outgoings::iterator transfer) {
  Outgoing& outgoing = transfer->second;
  if (const auto published = find(outgoing.object); !published) {
    fail(transfer->first.first, transfer->first.second, published.error());
    outgoing_.erase(transfer);
    return;
  }
  while (outgoing.credits > 0 && outgoing.offset < outgoing.source.bytes.size()) {
    if (!send_chunk(transfer->first, outgoing)) {
      outgoing_.erase(transfer);
      return;
    }
    outgoing.credits -= 1;
  }
  if (outgoing.offset == outgoing.source.bytes.size()) {
    outgoing_.erase(transfer);
  }
}

bool BulkServer::send_chunk(const Key& key, Outgoing& outgoing) {
  const auto left = outgoing.source.bytes.subspan(outgoing.offset);
  const auto bytes = left.first(std::min<std::size_t>(left.size(), chunk_bytes_));
  auto* const lease = new Lease{outgoing.source.owner, in_flight_, false};  // release_lease takes it over
  *in_flight_ += 1;
  lease->is_complete.store(true, std::memory_order_release);
  // ZeroMQ wants a pointer to non-const and only reads.
  ZmqMessage body(const_cast<std::byte*>(bytes.data()), bytes.size(), &release_lease, lease);
  ZmqMessage head = message_of(BulkChunk{key.second, outgoing.offset});
  if (router_.send(key.first, head, body) != SendStatus::sent) {
    return false;  // its connection is gone
  }
  outgoing.offset += bytes.size();
  bytes_sent_ += static_cast<std::int64_t>(bytes.size());
  return true;
}

void BulkServer::fail(const std::string& routing_id, std::uint64_t transfer, const Error& error) {
  ZmqMessage failure = message_of(BulkFailure{transfer, std::string(to_string(error.code)), error.message});
  static_cast<void>(router_.send(routing_id, failure));  // gone: it needs no answer
}

void BulkServer::connection_gone(const std::string& routing_id) {
  std::erase_if(outgoing_, [&](const auto& entry) { return entry.first.first == routing_id; });
}

}  // namespace memopd::detail

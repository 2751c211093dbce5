#include "runtime/transport/detail/bulk_link.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/transport/detail/link_options.hpp"

namespace memopd::detail {
namespace {

constexpr std::size_t kMaxActive = 4;
static_assert(kMaxActive <= kMaxTransfersPerConnection);
constexpr int kChunksPerTurn = 4;  // then control gets its turn
constexpr std::chrono::milliseconds kMinPause{20};
constexpr std::chrono::milliseconds kMaxPause{500};
constexpr std::int64_t kMaxMessageBytes = kMaxChunkBytes + 4096;

Error to_error(const BulkFailure& failure) {
  for (const ErrorCode code : {ErrorCode::not_found, ErrorCode::overloaded, ErrorCode::invalid_argument}) {
    if (failure.code == to_string(code)) {
      return {code, failure.message};
    }
  }
  return {ErrorCode::refused, failure.message};
}

}  // namespace

struct BulkLink::Attempt {
  explicit Attempt(const ZmqContext& context) : socket(context, ZMQ_DEALER), monitor(context, socket) {}

  ZmqSocket socket;
  SocketMonitor monitor;
};

BulkLink::BulkLink(EventLoop& loop, const ZmqContext& context, const TransportOptions& options, std::string endpoint,
                   std::string token, BulkLinkCallbacks callbacks)
    : loop_(loop),
      context_(context),
      options_(options),
      endpoint_(std::move(endpoint)),
      token_(std::move(token)),
      callbacks_(std::move(callbacks)) {}

BulkLink::~BulkLink() { end_attempt(); }

void BulkLink::add(FetchId fetch, Incoming incoming) {
  waiting_.emplace_back(fetch, std::move(incoming));
  if (!attempt_ && !retry_) {
    begin_attempt();
  }
  start_waiting();
}

bool BulkLink::abort(FetchId fetch, const Error& error) {
  if (active_.contains(fetch)) {
    send(BulkCancel{fetch});
    finish(fetch, error);
    return true;
  }
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& w) { return w.first == fetch; });
  if (found == waiting_.end()) {
    return false;
  }
  Incoming incoming = std::move(found->second);
  waiting_.erase(found);
  callbacks_.on_end(fetch, std::move(incoming), error);
  return true;
}

void BulkLink::abort_all(const Error& error) {
  while (!waiting_.empty()) {
    abort(waiting_.front().first, error);
  }
  while (!active_.empty()) {
    abort(active_.begin()->first, error);
  }
}

void BulkLink::begin_attempt() {
  retry_.reset();
  attempt_ = std::make_shared<Attempt>(context_);
  ZmqSocket& socket = attempt_->socket;
  if (options_.bulk.encrypt) {
    set_curve_client(socket, options_.key);
  } else {
    socket.set(ZMQ_PLAIN_USERNAME, "bulk");
    socket.set(ZMQ_PLAIN_PASSWORD, token_);
  }
  set_heartbeats(socket, options_);
  set_bounds(socket, 2 * static_cast<int>(kMaxActive * kMaxWindow) + 64, static_cast<int>(kMaxActive * kMaxWindow),
             kMaxMessageBytes);
  set_single_attempt(socket, options_);
  loop_.watch(attempt_->monitor.socket(), [this] { read_events(); });
  loop_.watch(socket.get(), [this] { read_chunks(); });
  if (const auto connected = socket.connect(endpoint_); !connected) {
    end_attempt();
    abort_all(connected.error());
    return;
  }
  for (const auto& [fetch, incoming] : active_) {
    request(fetch, incoming);
    callbacks_.on_resumed();
  }
}

void BulkLink::end_attempt() {
  is_connected_ = false;
  if (retry_) {
    loop_.cancel(*retry_);
    retry_.reset();
  }
  if (attempt_) {
    loop_.unwatch(attempt_->socket.get());
    loop_.unwatch(attempt_->monitor.socket());
    attempt_.reset();
  }
}

void BulkLink::start_waiting() {
  while (!waiting_.empty() && active_.size() < kMaxActive) {
    auto [fetch, incoming] = std::move(waiting_.front());
    waiting_.pop_front();
    incoming.last_progress = EventLoop::Clock::now();
    const auto entry = active_.emplace(fetch, std::move(incoming)).first;
    watch_progress(fetch);
    request(fetch, entry->second);
  }
}

template <class T>
void BulkLink::send(const T& message) {
  if (attempt_) {
    const auto frame = encode_frame(message);
    MEMOPD_CHECK(frame.has_value(), "a bulk frame above the limit");
    ZmqMessage bytes(*frame);
    static_cast<void>(attempt_->socket.send(bytes));  // a lost connection is noticed by its event
  }
}

void BulkLink::request(FetchId fetch, const Incoming& incoming) {
  send(BulkRequest{fetch, incoming.ticket.object, incoming.offset, static_cast<std::uint32_t>(options_.bulk.window)});
}

void BulkLink::read_events() {
  const std::shared_ptr<Attempt> attempt = attempt_;
  while (attempt == attempt_) {
    const auto event = attempt->monitor.next();
    if (!event) {
      return;
    }
    switch (event->event) {
      case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        is_connected_ = true;
        pause_ = std::chrono::milliseconds(0);
        break;
      case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
        end_attempt();
        abort_all({ErrorCode::refused, endpoint_ + ": handshake refused: another token or key"});
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

void BulkLink::connection_lost() {
  const std::shared_ptr<Attempt> attempt = attempt_;
  for (std::size_t i = 0; i < kMaxActive * kMaxWindow && attempt == attempt_; ++i) {
    read_chunks();  // what came before the cut is not asked for again
  }
  end_attempt();
  if (active_.empty() && waiting_.empty()) {
    return;  // the next fetch dials anew
  }
  pause_ = std::clamp(2 * pause_, kMinPause, kMaxPause);
  retry_ = loop_.after(pause_, [this] { begin_attempt(); });
}

void BulkLink::read_chunks() {
  const std::shared_ptr<Attempt> attempt = attempt_;
  for (int i = 0; i < kChunksPerTurn && attempt && attempt == attempt_; ++i) {
    ZmqMessage head;
    ZmqMessage body;
    if (!attempt->socket.receive(head)) {
      return;
    }
    bool has_more = head.has_more() && attempt->socket.receive(body) && body.has_more();
    for (ZmqMessage rest; has_more && attempt->socket.receive(rest);) {
      has_more = rest.has_more();
    }
    handle_message(head, body);
  }
}

void BulkLink::handle_message(const ZmqMessage& head, const ZmqMessage& body) {
  if (const auto chunk = decode_frame<BulkChunk>(head.bytes())) {
    handle_chunk(*chunk, body.bytes());
  } else if (const auto failure = decode_frame<BulkFailure>(head.bytes())) {
    handle_failure(*failure);
  } else {
    end_attempt();
    abort_all({ErrorCode::parse_error, endpoint_ + ": neither a chunk nor a failure: " + failure.error().message});
  }
}

void BulkLink::handle_chunk(const BulkChunk& chunk, std::span<const std::byte> bytes) {
  const auto found = active_.find(chunk.transfer);
  if (found == active_.end()) {
    return;  // it was aborted
  }
  Incoming& incoming = found->second;
  const std::uint64_t left = incoming.ticket.size_bytes - incoming.offset;
  if (chunk.offset != incoming.offset || bytes.size() != std::min<std::uint64_t>(left, incoming.ticket.chunk_bytes)) {
    abort(chunk.transfer,
          {ErrorCode::parse_error,
           endpoint_ + ": chunk of " + std::to_string(bytes.size()) + " bytes at " + std::to_string(chunk.offset) +
               ", expected " + std::to_string(incoming.ticket.chunk_bytes) + " at " + std::to_string(incoming.offset)});
    return;
  }
  std::memcpy(incoming.target.bytes.data() + incoming.offset, bytes.data(), bytes.size());
  const std::uint64_t begin = incoming.offset;
  incoming.offset += bytes.size();
  incoming.last_progress = EventLoop::Clock::now();
  callbacks_.on_chunk(chunk.transfer, incoming, begin, bytes.size());
  if (incoming.offset == incoming.ticket.size_bytes) {
    finish(chunk.transfer, std::nullopt);
  } else {
    send(BulkCredit{chunk.transfer, 1});
  }
}

void BulkLink::handle_failure(const BulkFailure& failure) {
  Error error = to_error(failure);
  error.message = endpoint_ + ": " + error.message;
  finish(failure.transfer, std::move(error));
}

void BulkLink::watch_progress(FetchId fetch) {
  Incoming& incoming = active_.at(fetch);
  const auto silence =
      std::chrono::duration_cast<std::chrono::milliseconds>(EventLoop::Clock::now() - incoming.last_progress);
  const auto allowed = options_.bulk.stall_timeout;
  if (silence < allowed) {
    incoming.watchdog = loop_.after(allowed - silence, [this, fetch] { watch_progress(fetch); });
    return;
  }
  incoming.watchdog.reset();
  const std::string what = endpoint_ + ": object " + to_string(incoming.ticket.object) + ": no chunk for " +
                           std::to_string(allowed.count()) + " ms at " + std::to_string(incoming.offset) + " of " +
                           std::to_string(incoming.ticket.size_bytes) + " bytes";
  abort(fetch,
        is_connected_ ? Error{ErrorCode::timeout, what} : Error{ErrorCode::target_down, what + ", no connection"});
}

void BulkLink::finish(FetchId fetch, std::optional<Error> error) {
  auto ended = active_.extract(fetch);
  if (ended.empty()) {
    return;
  }
  if (ended.mapped().watchdog) {
    loop_.cancel(*ended.mapped().watchdog);
  }
  callbacks_.on_end(fetch, std::move(ended.mapped()), std::move(error));
  start_waiting();
}

}  // namespace memopd::detail

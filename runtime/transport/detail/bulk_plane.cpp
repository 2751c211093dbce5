#include "runtime/transport/detail/bulk_plane.hpp"

#include <array>

#include "runtime/base/check.hpp"
#include "runtime/transport/detail/bind_endpoints.hpp"
#include "runtime/transport/detail/link_options.hpp"

namespace memopd::detail {
namespace {

std::string make_token() { return to_string(make_random_id<BulkObjectId>()); }

Expected<void> check_fetch(const BulkTicket& ticket, const BulkTarget& target, bool is_encrypted) {
  constexpr std::size_t kMaxToken = 255;  // of ZeroMQ
  if (!is_encrypted && (ticket.token.empty() || ticket.token.size() > kMaxToken)) {
    return unexpected(ErrorCode::invalid_argument, "object " + to_string(ticket.object) + ": a token of " +
                                                       std::to_string(ticket.token.size()) +
                                                       " bytes, allowed 1..255; does its owner encrypt bulk?");
  }
  if (target.bytes.size() != ticket.size_bytes) {
    return unexpected(ErrorCode::invalid_argument, "object " + to_string(ticket.object) + " has " +
                                                       std::to_string(ticket.size_bytes) + " bytes, the target " +
                                                       std::to_string(target.bytes.size()));
  }
  if (ticket.chunk_bytes < kMinChunkBytes || ticket.chunk_bytes > kMaxChunkBytes) {
    return unexpected(ErrorCode::invalid_argument,
                      "object " + to_string(ticket.object) + ": chunks of " + std::to_string(ticket.chunk_bytes) +
                          " bytes, allowed " + std::to_string(kMinChunkBytes) + ".." + std::to_string(kMaxChunkBytes));
  }
  return {};
}

}  // namespace

BulkPlane::BulkPlane(EventLoop& loop, const ZmqContext& context, const TransportOptions& options, RefusalLog& refusals)
    : loop_(loop),
      context_(context),
      options_(options),
      token_(make_token()),
      member_key_(decode_z85_key(options.key.public_key())),
      zap_(loop, context, [this](const ZapRequest& request) { return is_admitted(request); }),
      server_(loop, context, options, refusals),
      hash_thread_(std::make_unique<HashThread>()) {}

BulkPlane::~BulkPlane() {
  hash_thread_.reset();
  for (const auto& [key, link] : links_) {
    link->abort_all({ErrorCode::target_down, "the transport ended"});
  }
  while (!fetches_.empty()) {  // their last hash was not taken
    complete(fetches_.begin()->first, unexpected(ErrorCode::target_down, "the transport ended"));
  }
}

bool BulkPlane::is_admitted(const ZapRequest& request) const {
  if (options_.bulk.encrypt) {
    return request.mechanism == "CURVE" && request.credentials.size() == 1 &&
           equal_secrets(request.credentials.front(), member_key_);
  }
  return request.mechanism == "PLAIN" && request.credentials.size() == 2 &&
         equal_secrets(request.credentials.back(), token_);
}

Expected<void> BulkPlane::listen() {
  auto endpoints = bind_endpoints(server_.socket(), options_.listen, to_string(options_.self.instance) + ".bulk");
  MEMOPD_RETURN_IF_ERROR(endpoints);
  endpoint_ = std::move(endpoints->back());  // tcp where there is one: on the node payloads go by shared memory
  return {};
}

BulkTicket BulkPlane::publish(BulkSource source) {
  BulkTicket ticket{endpoint_,
                    options_.bulk.encrypt ? std::string() : token_,
                    make_random_id<BulkObjectId>(),
                    source.bytes.size(),
                    options_.bulk.chunk_bytes,
                    sha256(source.bytes)};
  server_.add(ticket.object, std::move(source));
  return ticket;
}

BulkPlane::Order::~Order() {
  if (done) {
    done(unexpected(ErrorCode::target_down, "the transport ended"));
  }
}

FetchId BulkPlane::fetch(BulkTicket ticket, BulkTarget target, Done done) {
  const FetchId id = ++last_fetch_;
  loop_.post([this, id, order = std::make_shared<Order>(std::move(ticket), std::move(target), std::move(done))] {
    start(id, *order);
  });
  return id;
}

void BulkPlane::start(FetchId id, Order& order) {
  fetches_.emplace(id, Fetch{std::exchange(order.done, nullptr)});
  if (const auto checked = check_fetch(order.ticket, order.target, options_.bulk.encrypt); !checked) {
    complete(id, checked);
    return;
  }
  BulkLink& link = link_to(order.ticket);
  Incoming incoming{std::move(order.ticket), std::move(order.target), 0, {}, std::nullopt};
  if (incoming.ticket.size_bytes == 0) {
    link_done(id, std::move(incoming), std::nullopt);
    return;
  }
  link.add(id, std::move(incoming));
}

BulkLink& BulkPlane::link_to(const BulkTicket& ticket) {
  auto& link = links_[{ticket.endpoint, ticket.token}];
  if (!link) {
    link = std::make_unique<BulkLink>(
        loop_, context_, options_, ticket.endpoint, ticket.token,
        BulkLinkCallbacks{[this](FetchId id, const Incoming& incoming, std::uint64_t begin, std::size_t size) {
                            hash_chunk(id, incoming, begin, size);
                          },
                          [this](FetchId id, Incoming incoming, std::optional<Error> error) {
                            link_done(id, std::move(incoming), std::move(error));
                          },
                          [this] { num_resumed_ += 1; }});
  }
  return *link;
}

void BulkPlane::hash_chunk(FetchId id, const Incoming& incoming, std::uint64_t begin, std::size_t size) {
  bytes_received_ += static_cast<std::int64_t>(size);
  hash_thread_->submit([hash = fetches_.at(id).hash, owner = incoming.target.owner,
                        bytes = incoming.target.bytes.subspan(begin, size)] { hash->append(bytes); });
}

void BulkPlane::link_done(FetchId id, Incoming incoming, std::optional<Error> error) {
  if (error) {
    complete(id, unexpected(*std::move(error)));
  } else {
    verify(id, std::move(incoming));
  }
}

void BulkPlane::verify(FetchId id, Incoming incoming) {
  hash_thread_->submit([this, id, hash = fetches_.at(id).hash, ticket = std::move(incoming.ticket)] {
    const Sha256Digest found = hash->finish();
    loop_.post([this, id, ticket, found] {
      complete(id, found == ticket.sha256
                       ? Expected<void>()
                       : Expected<void>(unexpected(ErrorCode::parse_error,
                                                   ticket.endpoint + ": object " + to_string(ticket.object) +
                                                       " arrived with SHA-256 " + to_hex(found) + ", its ticket has " +
                                                       to_hex(ticket.sha256))));
    });
  });
}

void BulkPlane::complete(FetchId id, const Expected<void>& result) {
  auto ended = fetches_.extract(id);
  if (!ended.empty() && ended.mapped().done) {
    ended.mapped().done(result);
  }
}

void BulkPlane::abort(FetchId fetch) {
  loop_.post([this, fetch] {
    const Error error{ErrorCode::refused, "fetch " + std::to_string(fetch) + " was aborted"};
    for (const auto& [key, link] : links_) {
      if (link->abort(fetch, error)) {
        return;
      }
    }
    complete(fetch, unexpected(error));  // between its last byte and its hash
  });
}

BulkCounters BulkPlane::counters() const {
  return {server_.bytes_sent(), bytes_received_.load(), server_.chunks_in_flight(), num_resumed_.load()};
}

}  // namespace memopd::detail

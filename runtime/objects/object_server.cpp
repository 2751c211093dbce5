#include "runtime/objects/object_server.hpp"
// Length: one class, private to this file.

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <list>
#include <thread>

#include "runtime/base/check.hpp"
#include "runtime/base/log.hpp"
#include "runtime/objects/detail/object_exchange.hpp"
#include "runtime/objects/detail/store_packet.hpp"
#include "runtime/objects/detail/store_socket.hpp"
#include "runtime/wire/frame.hpp"

namespace memopd {
namespace {

using Clock = std::chrono::steady_clock;
using detail::Descriptor;
using detail::Packet;

constexpr int kPacketsPerTurn = 16;      // of one connection, before the others get theirs
constexpr int kAcceptsPerTurn = 16;      // likewise
constexpr std::int64_t kMaxLogged = 16;  // refusals of each kind in the log; all are counted
constexpr std::size_t kMaxErrorBytes = 2048;
constexpr std::int64_t kMaxWaitMs = 24LL * 3600 * 1000;

Descriptor open_spare() { return Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

class Server final : public ObjectServer {
 public:
  Server(ObjectServerOptions options, Descriptor listener)
      : options_(std::move(options)),
        listener_(std::move(listener)),
        spare_(open_spare()),
        table_(std::make_shared<detail::ObjectTable>(options_.max_bytes)),
        wake_(std::make_shared<const detail::Wake>()),
        exchange_(table_, wake_, options_.bulk),
        thread_([this] { run(); }) {}

  ~Server() override {
    stopping_ = true;
    wake_->signal();
    thread_.join();
    table_->close();
    ::unlink(options_.socket.c_str());
  }

  [[nodiscard]] Expected<BulkTicket> offer(const ObjectRef& ref) override { return exchange_.offer(ref); }
  [[nodiscard]] Expected<Description> describe(const ObjectRef& ref) const override {
    auto object = table_->get(ref);
    MEMOPD_RETURN_IF_ERROR(object);
    return Description{object->scope, object->type};
  }
  void pull(const ObjectRef& ref, const BulkTicket& ticket, const Scope& scope, const std::string& type,
            Done done) override {
    exchange_.pull(ref, ticket, scope, type, std::move(done));
  }
  void fail(const ObjectRef& ref, const Error& error) override {
    table_->fail_search(ref, error);
    wake_->signal();
    exchange_.abort(ref);
  }
  void release(const ObjectRef& ref) override {
    static_cast<void>(table_->release(ref));  // not here, or not any more: as wanted
    wake_->signal();
  }
  std::size_t release_scope(const Scope& scope) override {
    const std::size_t count = table_->release_scope(scope);
    wake_->signal();
    return count;
  }
  [[nodiscard]] ObjectServerCounters counters() const override {
    return {table_->counters(), num_connections_,  num_refused_connections_,
            num_malformed_,     num_refused_puts_, num_waiting_};
  }

 private:
  /// A pending wait.
  struct Wait {
    ObjectRef ref;
    std::int64_t timeout_ms = 0;
    Clock::time_point deadline;
    bool is_elsewhere = false;
  };
  struct Session {
    Descriptor socket;
    std::optional<Wait> wait;
    bool has_ended = false;
  };

  void run();
  [[nodiscard]] int poll_timeout() const;
  void accept_some();
  void admit(Session session);
  void turn_away(Session& session, const Error& reason);
  void read_some(Session& session);
  /// @error parse_error, bad_schema  not a request of the protocol
  Expected<void> handle(Session& session, Packet packet);
  void handle_get(Session& session, const ObjectRef& ref);
  /// Has it looked for on other nodes, unless it is known here. @return whether it may come
  bool look_elsewhere(const ObjectRef& ref);
  void forget_failed();
  Expected<void> put(const StoreRequest& request, Packet& packet);
  void answer_waits();
  void reply(Session& session, const StoreReply& reply, int descriptor = -1);
  void reply(Session& session, const Expected<void>& result, bool is_last = false);
  void cut(Session& session, const Error& reason);

  const ObjectServerOptions options_;
  const Descriptor listener_;
  Descriptor spare_;  // given up for a moment to turn somebody away when no descriptor is left
  const std::shared_ptr<detail::ObjectTable> table_;
  const std::shared_ptr<const detail::Wake> wake_;
  detail::ObjectExchange exchange_;
  std::list<Session> sessions_;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::int64_t> num_connections_ = 0;
  std::atomic<std::int64_t> num_refused_connections_ = 0;
  std::atomic<std::int64_t> num_malformed_ = 0;
  std::atomic<std::int64_t> num_refused_puts_ = 0;
  std::atomic<std::int64_t> num_waiting_ = 0;
  std::thread thread_;
};

void Server::run() {
  std::vector<pollfd> items;
  while (!stopping_) {
    items.assign({{wake_->descriptor(), POLLIN, 0}, {listener_.get(), POLLIN, 0}});
    for (const Session& session : sessions_) {
      items.push_back({session.socket.get(), POLLIN, 0});
    }
    ::poll(items.data(), items.size(), poll_timeout());
    if (items[0].revents != 0) {
      wake_->drain();
    }
    std::size_t index = 2;
    for (Session& session : sessions_) {
      if (items[index++].revents != 0) {
        read_some(session);
      }
    }
    answer_waits();
    forget_failed();
    std::erase_if(sessions_, [](const Session& session) { return session.has_ended; });
    if (items[1].revents != 0) {
      accept_some();
    }
    num_connections_ = static_cast<std::int64_t>(sessions_.size());
    num_waiting_ =
        std::count_if(sessions_.begin(), sessions_.end(), [](const Session& s) { return s.wait.has_value(); });
  }
  sessions_.clear();
}

int Server::poll_timeout() const {
  std::int64_t timeout = -1;
  for (const Session& session : sessions_) {
    if (session.wait) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(session.wait->deadline - Clock::now()).count();
      timeout = timeout < 0 ? std::max<std::int64_t>(0, left) : std::clamp<std::int64_t>(left, 0, timeout);
    }
  }
  return static_cast<int>(timeout);
}

void Server::accept_some() {
  const auto accept_one = [this] {
    return Descriptor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  };
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    Session session{accept_one(), std::nullopt};
    if (session.socket.is_open()) {
      admit(std::move(session));
      continue;
    }
    if (errno != EMFILE && errno != ENFILE) {
      return;
    }
    const Error full = detail::system_error("the object server accepts a connection", errno);
    spare_.reset();
    session.socket = accept_one();
    const bool is_there = session.socket.is_open();  // the limit is looked at first
    if (is_there) {
      turn_away(session, full);
    }
    session.socket.reset();
    spare_ = open_spare();
    if (!is_there) {
      return;
    }
  }
}

void Server::admit(Session session) {
  if (sessions_.size() >= static_cast<std::size_t>(options_.max_connections)) {
    turn_away(session, {ErrorCode::overloaded, "the object server has " + std::to_string(sessions_.size()) +
                                                   " connections, max_connections is " +
                                                   std::to_string(options_.max_connections)});
  } else if (const auto checked = detail::check_peer_user(session.socket); !checked) {
    turn_away(session, checked.error());
  } else {
    sessions_.push_back(std::move(session));
  }
}

void Server::turn_away(Session& session, const Error& reason) {
  if (++num_refused_connections_ <= kMaxLogged) {
    log_warning("objects", "connection_refused", {{"reason", reason.message}});
  }
  reply(session, unexpected(reason), true);
}

void Server::read_some(Session& session) {
  for (int i = 0; i < kPacketsPerTurn && !session.has_ended; ++i) {
    auto packet = detail::receive_packet(session.socket.get());
    if (!packet) {
      if (packet.error().code == ErrorCode::parse_error) {
        cut(session, packet.error());
      }
      session.has_ended = true;
    } else if (!packet->has_value()) {
      return;
    } else if (const auto handled = handle(session, **std::move(packet)); !handled) {
      reply(session, handled, true);
      cut(session, handled.error());
    }
  }
}

Expected<void> Server::handle(Session& session, Packet packet) {
  const auto request = decode_frame<StoreRequest>(packet.bytes);
  MEMOPD_RETURN_IF_ERROR(request);
  if (session.wait) {
    return unexpected(ErrorCode::parse_error, "a request while another one waits for its answer");
  }
  if (request->verb != StoreVerb::put && packet.descriptor.is_open()) {
    return unexpected(ErrorCode::parse_error, "a descriptor with a request that takes none");
  }
  StoreReply answer;
  switch (request->verb) {
    case StoreVerb::put:
      reply(session, put(*request, packet));
      break;
    case StoreVerb::get:
      handle_get(session, request->ref);
      break;
    case StoreVerb::wait: {
      const std::int64_t timeout_ms = std::clamp<std::int64_t>(request->timeout_ms, 0, kMaxWaitMs);
      session.wait = Wait{request->ref, timeout_ms, Clock::now() + std::chrono::milliseconds(timeout_ms),
                          request->is_elsewhere && look_elsewhere(request->ref)};
      break;
    }
    case StoreVerb::release: {
      const auto released = table_->release(request->ref);
      const bool is_of_others = options_.on_released && !table_->knows_store(request->ref);
      reply(session, is_of_others ? Expected<void>() : released);
      if (options_.on_released) {
        options_.on_released(request->ref, std::nullopt);
      }
      break;
    }
    case StoreVerb::release_scope:
      answer.count = table_->release_scope(request->scope);
      reply(session, answer);
      if (options_.on_released) {
        options_.on_released(std::nullopt, request->scope);
      }
      break;
    case StoreVerb::counters:
      answer.counters = table_->counters();
      reply(session, answer);
      break;
  }
  return {};
}

Expected<void> Server::put(const StoreRequest& request, Packet& packet) {
  Expected<void> done;
  const std::string what = "object " + to_string(request.ref) + " was refused: ";
  if (packet.lost_descriptor) {
    const Error error = detail::system_error("the object server takes its descriptor", EMFILE);
    done = unexpected(error.code, what + error.message);
    table_->remember_refused(request.ref, done.error());
  } else if (!packet.descriptor.is_open()) {
    done = unexpected(ErrorCode::refused, what + "it came without a descriptor");
  } else if (request.type.size() > kMaxTypeNameBytes) {
    done = unexpected(ErrorCode::invalid_argument, what + "a type name of " + std::to_string(request.type.size()) +
                                                       " bytes, at most " + std::to_string(kMaxTypeNameBytes));
  } else {
    done = table_->put(request.ref, {request.scope, request.size_bytes, request.type,
                                     std::make_shared<const Descriptor>(std::move(packet.descriptor))});
  }
  if (!done && ++num_refused_puts_ <= kMaxLogged) {
    log_warning("objects", "put_refused", {{"reason", done.error().message}});
  }
  return done;
}

void Server::handle_get(Session& session, const ObjectRef& ref) {
  const auto object = table_->get(ref);
  if (!object) {
    StoreReply absent;
    absent.error = object.error();
    absent.may_come = look_elsewhere(ref);
    reply(session, absent);
    return;
  }
  StoreReply answer;
  answer.scope = object->scope;
  answer.size_bytes = object->size_bytes;
  answer.type = object->type;
  reply(session, answer, object->memory->get());
}

bool Server::look_elsewhere(const ObjectRef& ref) {
  if (!options_.on_missing || table_->knows_store(ref) || table_->presence(ref)) {
    return false;
  }
  if (table_->begin_search(ref)) {
    options_.on_missing(ref);
  }
  return true;
}

void Server::forget_failed() {
  table_->prune_searches([this](const ObjectRef& ref) {
    return std::any_of(sessions_.begin(), sessions_.end(),
                       [&](const Session& session) { return session.wait && session.wait->ref == ref; });
  });
}

void Server::answer_waits() {
  for (Session& session : sessions_) {
    if (!session.wait || session.has_ended) {
      continue;
    }
    const Wait wait = *session.wait;
    auto result = table_->presence(wait.ref);
    if (const auto failure = result || !wait.is_elsewhere ? std::nullopt : table_->search_failure(wait.ref)) {
      result = Expected<void>(unexpected(*failure));
    }
    if (!result && Clock::now() >= wait.deadline) {
      result = unexpected(ErrorCode::timeout, "object " + to_string(wait.ref) + " was not put within " +
                                                  std::to_string(wait.timeout_ms) + " ms");
    }
    if (result) {
      session.wait.reset();
      reply(session, *result);
    }
  }
}

void Server::reply(Session& session, const StoreReply& reply, int descriptor) {
  const auto frame = encode_frame(reply);
  MEMOPD_CHECK(frame && frame->size() <= detail::kMaxPacketBytes, "a reply above the limit");
  if (const auto sent = detail::send_packet(session.socket.get(), *frame, descriptor); !sent) {
    if (sent.error().code == ErrorCode::overloaded) {
      cut(session, sent.error());
    }
    session.has_ended = true;
  }
}

void Server::reply(Session& session, const Expected<void>& result, bool is_last) {
  StoreReply answer;
  answer.is_last = is_last;
  if (!result) {
    answer.error = result.error();
    answer.error->message.resize(std::min(answer.error->message.size(), kMaxErrorBytes));  // may quote what a peer sent
  }
  reply(session, answer);
}

void Server::cut(Session& session, const Error& reason) {
  if (!session.has_ended && ++num_malformed_ <= kMaxLogged) {
    log_warning("objects", "connection_cut", {{"reason", reason.message}});
  }
  session.has_ended = true;
}

}  // namespace

Expected<std::unique_ptr<ObjectServer>> ObjectServer::start(ObjectServerOptions options) {
  if (options.max_connections < 1) {
    return unexpected(ErrorCode::invalid_argument,
                      "max_connections " + std::to_string(options.max_connections) + ", at least 1 is needed");
  }
  detail::raise_descriptor_limit();
  auto listener = detail::listen_at(options.socket);
  MEMOPD_RETURN_IF_ERROR(listener);
  return std::unique_ptr<ObjectServer>(std::make_unique<Server>(std::move(options), *std::move(listener)));
}

}  // namespace memopd

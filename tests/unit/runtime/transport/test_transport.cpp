#include "tests/unit/runtime/transport/test_transport.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>

#include "runtime/base/log.hpp"
#include "runtime/transport/detail/link_options.hpp"

namespace memopd::testing {
namespace {

constexpr std::chrono::seconds kHang{30};

}  // namespace

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

ProcessIdentity TestRun::identity(std::string role, std::uint64_t incarnation) const {
  return {run, make_random_id<InstanceId>(), incarnation, std::move(role), kLinkProtocolVersion, "build-1", "schema-1"};
}

TransportOptions TestRun::options(std::string role, std::uint64_t incarnation) const {
  set_log_sink([](const LogEvent&) {});
  // Far above what a busy machine delays; tests of silence set their own.
  return {.key = key,
          .self = identity(std::move(role), incarnation),
          .listen = {"", "127.0.0.1", {}},
          .dead_after = std::chrono::milliseconds(10'000)};
}

TransportHandlers Recorder::handlers() {
  TransportHandlers handlers;
  handlers.on_peer_up = [this](const Peer& peer) { add({Kind::up, "", peer.identity.role, peer.identity.instance}); };
  handlers.on_peer_down = [this](const Peer& peer, const Error& reason) {
    add({Kind::down, reason.message, peer.identity.role, peer.identity.instance, reason.code});
  };
  handlers.on_message = [this](const Peer& peer, std::span<const std::byte> body) -> Expected<void> {
    if (answer) {
      return answer(peer, body);
    }
    add({Kind::message, text_of(body), peer.identity.role, peer.identity.instance});
    return {};
  };
  handlers.on_dial_failed = [this](const DialRequest&, const Error& error) {
    add({Kind::dial_failed, error.message, "", {}, error.code});
  };
  handlers.on_refused = [this](const Refused& refused) {
    add({Kind::refused, refused.message, refused.sender, {}, ErrorCode::internal, refused.reason});
  };
  return handlers;
}

void Recorder::add(Event event) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  added_.notify_all();
}

Recorder::Event Recorder::wait_for(const std::function<bool(const Event&)>& wanted, const std::string& what) {
  std::unique_lock lock(mutex_);
  auto found = events_.end();
  const bool is_there = added_.wait_for(lock, kHang, [&] {
    found = std::find_if(events_.begin(), events_.end(), wanted);
    return found != events_.end();
  });
  std::string seen;
  for (const Event& event : events_) {
    seen += "\n  " + std::to_string(static_cast<int>(event.kind)) + " " + event.peer + ": " + event.text.substr(0, 200);
  }
  INFO("waiting for " << what << "; seen:" << seen);
  REQUIRE(is_there);
  Event event = std::move(*found);
  events_.erase(found);
  return event;
}

Recorder::Event Recorder::wait(Kind kind) {
  return wait_for([&](const Event& event) { return event.kind == kind; },
                  "event " + std::to_string(static_cast<int>(kind)));
}

Recorder::Event Recorder::wait_refused(RefusalReason reason) {
  return wait_for([&](const Event& event) { return event.kind == Kind::refused && event.reason == reason; },
                  "refusal " + std::string(to_string(reason)));
}

std::size_t Recorder::count(Kind kind) const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(events_.begin(), events_.end(), [&](const Event& event) { return event.kind == kind; }));
}

Node::Node(TransportOptions options) : self(options.self) {
  auto started = Transport::start(std::move(options), recorder.handlers());
  INFO((started ? std::string() : started.error().message));
  REQUIRE(started);
  transport = *std::move(started);
}

Node::Node(TransportOptions options,
           std::function<Expected<void>(Transport&, const Peer&, std::span<const std::byte>)> f)
    : self(options.self) {
  recorder.answer = [this, f = std::move(f)](const Peer& peer, std::span<const std::byte> body) {
    return f(*started_.load(), peer, body);
  };
  auto started = Transport::start(std::move(options), recorder.handlers());
  REQUIRE(started);
  transport = *std::move(started);
  started_ = transport.get();
}

void link(Node& a, Node& b) {
  a.transport->dial({b.endpoint(), b.id()});
  CHECK(a.recorder.wait(Recorder::Kind::up).instance == b.id());
  CHECK(b.recorder.wait(Recorder::Kind::up).instance == a.id());
}

RawMember::RawMember(const RunKey& key, const std::string& endpoint, int receive_queue)
    : socket_(context_, ZMQ_DEALER) {
  detail::set_curve_client(socket_, key);
  socket_.set(ZMQ_RCVHWM, receive_queue);
  socket_.set(ZMQ_SNDHWM, 0);
  REQUIRE(socket_.connect(endpoint));
}

void RawMember::send(std::span<const std::byte> frame) {
  detail::ZmqMessage message(frame);
  REQUIRE(socket_.send(message) == detail::SendStatus::sent);
}

void RawMember::send_parts(std::span<const std::byte> first, std::span<const std::byte> second) {
  detail::ZmqMessage head(first);
  REQUIRE(socket_.send(head, true) == detail::SendStatus::sent);
  send(second);
}

void RawMember::claim(const ProcessIdentity& identity) {
  send(encode_link_frame({LinkFrameKind::hello, identity.run, identity.incarnation, 0},
                         *encode_frame(LinkHello{identity})));
}

void RawMember::send_data(const ProcessIdentity& as, std::uint64_t sequence, std::string_view body) {
  send(encode_link_frame({LinkFrameKind::data, as.run, as.incarnation, sequence}, bytes_of(body)));
}

Bytes RawMember::receive() {
  zmq_pollitem_t item{socket_.get(), 0, ZMQ_POLLIN, 0};
  REQUIRE(zmq_poll(&item, 1, 30'000) == 1);
  detail::ZmqMessage message;
  REQUIRE(socket_.receive(message));
  return {message.bytes().begin(), message.bytes().end()};
}

LinkFrameKind RawMember::receive_kind() {
  const Bytes frame = receive();
  const auto view = parse_link_frame(frame);
  REQUIRE(view);
  return view->header.kind;
}

std::string RawMember::receive_refusal() {
  const Bytes frame = receive();
  const auto view = parse_link_frame(frame);
  REQUIRE(view);
  const auto refusal = decode_frame<LinkRefusal>(view->body);
  REQUIRE(refusal);
  return refusal->message;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "memopd-transport-XXXXXX").string();
  REQUIRE(::mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  statm >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

void wait_until(const std::function<bool()>& done, const std::string& what) {
  const auto end = std::chrono::steady_clock::now() + kHang;
  while (!done()) {
    INFO("waiting for " << what);
    REQUIRE(std::chrono::steady_clock::now() < end);
    std::this_thread::yield();
  }
}

}  // namespace memopd::testing

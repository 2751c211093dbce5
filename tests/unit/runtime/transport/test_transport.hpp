// What transport tests share: options of a run, a recorder of callbacks, a node, a member that speaks raw frames. Waiting is
// for events; the limit of 30 s is there for hangs only.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/transport/detail/zmq_socket.hpp"
#include "runtime/transport/link_frame.hpp"
#include "runtime/transport/transport.hpp"

namespace memopd::testing {

using Bytes = std::vector<std::byte>;

[[nodiscard]] Bytes bytes_of(std::string_view text);
[[nodiscard]] std::string text_of(std::span<const std::byte> bytes);

/// A run on loopback.
struct TestRun {
  RunKey key = *RunKey::generate();
  RunId run = make_random_id<RunId>();

  [[nodiscard]] ProcessIdentity identity(std::string role, std::uint64_t incarnation = 1) const;
  [[nodiscard]] TransportOptions options(std::string role, std::uint64_t incarnation = 1) const;
};

/// Keeps every callback of a transport and lets a test wait for one.
class Recorder {
 public:
  struct Event {
    enum class Kind { up, down, message, dial_failed, refused } kind;
    std::string text;  ///< message: body; down, dial_failed, refused: the reason
    std::string peer;  ///< up, down, message: its role; refused: the sender
    InstanceId instance;
    ErrorCode code = ErrorCode::internal;
    RefusalReason reason = RefusalReason::malformed;
  };
  using Kind = Event::Kind;

  [[nodiscard]] TransportHandlers handlers();
  /// The next event of this kind, taken out. Fails the test after 30 s.
  [[nodiscard]] Event wait(Kind kind);
  [[nodiscard]] Event wait_refused(RefusalReason reason);
  [[nodiscard]] std::size_t count(Kind kind) const;
  /// Answers messages instead of recording them; before the transport starts.
  std::function<Expected<void>(const Peer&, std::span<const std::byte>)> answer = nullptr;

 private:
  void add(Event event);
  [[nodiscard]] Event wait_for(const std::function<bool(const Event&)>& wanted, const std::string& what);

  mutable std::mutex mutex_;
  std::condition_variable added_;
  std::deque<Event> events_;
};

/// A transport and what it told. Members are destroyed transport first.
struct Node {
  explicit Node(TransportOptions options);
  Node(TransportOptions options, std::function<Expected<void>(Transport&, const Peer&, std::span<const std::byte>)> f);

  Recorder recorder;
  ProcessIdentity self;
  std::unique_ptr<Transport> transport;
  [[nodiscard]] const std::string& endpoint() const { return transport->endpoints().front(); }
  [[nodiscard]] const InstanceId& id() const { return self.instance; }

 private:
  std::atomic<Transport*> started_ = nullptr;  // what the socket thread may use
};

/// Links `a` to `b` and waits until both know it.
void link(Node& a, Node& b);

/// A holder of the run's key that sends what it wants.
class RawMember {
 public:
  RawMember(const RunKey& key, const std::string& endpoint, int receive_queue = 1000);
  void send(std::span<const std::byte> frame);
  void send_parts(std::span<const std::byte> first, std::span<const std::byte> second);
  void claim(const ProcessIdentity& identity);
  /// A data frame.
  void send_data(const ProcessIdentity& as, std::uint64_t sequence, std::string_view body);
  /// The next frame from the other side; fails the test after 30 s.
  [[nodiscard]] Bytes receive();
  [[nodiscard]] LinkFrameKind receive_kind();
  /// Text of a refusal or goodbye.
  [[nodiscard]] std::string receive_refusal();

 private:
  detail::ZmqContext context_;
  detail::ZmqSocket socket_;
};

/// A new empty folder, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Resident bytes of this process.
[[nodiscard]] std::int64_t resident_bytes();
/// Calls `done` until it is true; fails the test after 30 s.
void wait_until(const std::function<bool()>& done, const std::string& what);

}  // namespace memopd::testing

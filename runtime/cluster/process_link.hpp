// ProcessLink: how a worker or an agent stands in its run: what it was started with, its links, its queue of work.
//
// Frames come on the socket thread and are posted to the main thread, which alone acts; calls of actors pass by.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/cluster/messages.hpp"
#include "runtime/transport/transport.hpp"
#include "runtime/wire/frame.hpp"

namespace memopd {

inline constexpr const char* kLauncher = "launcher";  ///< the head's process in the directory

/// Options of the transport of one process of a run.
[[nodiscard]] TransportOptions transport_options(const RunKey& key, const RunId& run, const std::string& process,
                                                 std::uint64_t incarnation, const LinkSettings& links);

/// Where the object server of a node listens.
[[nodiscard]] std::filesystem::path object_socket_of(const LinkSettings& links, const std::string& node);

/// Work for one thread. Thread-safe.
class TaskQueue {
 public:
  void post(std::function<void()> task);
  /// Runs what is there; waits at most `patience` for the first.
  void run(std::chrono::milliseconds patience);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
};

/// What a worker and an agent have in common. Its handlers run on the socket thread.
class ProcessLink {
 public:
  struct Handlers {
    std::function<void(const Peer&)> on_peer_up = nullptr;
    std::function<void(const Peer&, const Error&)> on_peer_down = nullptr;
    std::function<Expected<void>(const Peer&, const FrameView&)> on_frame = nullptr;
    std::function<void(const DialRequest&, const Error&)> on_dial_failed = nullptr;
  };

  /// Listens, and dials the head. @error those of Transport::start; parse_error of the key
  [[nodiscard]] static Expected<std::unique_ptr<ProcessLink>> start(const ProcessStart& start, Handlers handlers);

  /// To the head; what it cannot take is lost, and with it the run.
  template <Message M>
  Expected<void> tell_head(const M& message) {
    auto frame = encode_frame(message);
    return frame ? transport_->send(head_, *frame) : Expected<void>(unexpected(frame.error()));
  }
  [[nodiscard]] Transport& transport() { return *transport_; }

 private:
  ProcessLink() = default;

  Handlers handlers_;
  InstanceId head_;
  std::unique_ptr<Transport> transport_;
};

/// decode_frame for a frame that is parsed already. @error bad_schema, parse_error
template <Message M>
[[nodiscard]] Expected<M> decode_parsed(const FrameView& frame) {
  MEMOPD_RETURN_IF_ERROR(check_frame_type(frame, message_type<M>().name));
  return decode<M>(frame.body);
}

}  // namespace memopd

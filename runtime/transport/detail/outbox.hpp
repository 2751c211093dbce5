// Outbox: frames on their way to one peer. Bounded by what the kernel has not taken yet, so that a stalled peer costs a
// fixed amount of memory and the sender learns it at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/transport/detail/zmq_socket.hpp"

namespace memopd::detail {

/// Thread-safe. Held by shared_ptr: frames in ZeroMQ's hands keep it.
class Outbox : public std::enable_shared_from_this<Outbox> {
 public:
  using Frame = std::vector<std::byte>;

  Outbox(std::int32_t max_frames, std::int64_t max_bytes) : max_frames_(max_frames), max_bytes_(max_bytes) {}

  /// @return  true if it was empty: somebody has to call take()
  /// @error overloaded   as many frames or bytes are pending as allowed; shows both
  /// @error target_down  closed
  [[nodiscard]] Expected<bool> push(Frame frame);
  /// Everything pushed since, in order.
  [[nodiscard]] std::vector<Frame> take();
  /// A message that counts as pending until ZeroMQ is done with it.
  [[nodiscard]] ZmqMessage to_message(Frame frame);
  /// Drops what was not taken; later pushes fail.
  void close();

 private:
  struct Pending;
  static void release(void* data, void* hint);
  void forget(std::size_t size_bytes);

  const std::int32_t max_frames_;
  const std::int64_t max_bytes_;
  std::atomic<std::int64_t> num_pending_{0};    // pushed and not yet with the kernel
  std::atomic<std::int64_t> pending_bytes_{0};  // likewise

  std::mutex mutex_;  // guards what follows
  std::vector<Frame> frames_;
  bool is_closed_ = false;
};

}  // namespace memopd::detail

#include "runtime/transport/detail/outbox.hpp"

#include <string>
#include <utility>

namespace memopd::detail {

/// A frame in ZeroMQ's hands.
struct Outbox::Pending {
  Frame frame;
  std::shared_ptr<Outbox> outbox;
  std::atomic<bool> is_complete{false};  // orders the I/O thread's release after the construction here
};

Expected<bool> Outbox::push(Frame frame) {
  const auto size = static_cast<std::int64_t>(frame.size());
  const std::lock_guard lock(mutex_);
  if (is_closed_) {
    return unexpected(ErrorCode::target_down, "the link has ended");
  }
  const std::int64_t num_pending = num_pending_.load();
  const std::int64_t pending_bytes = pending_bytes_.load();
  if (num_pending >= max_frames_ || (num_pending > 0 && pending_bytes + size > max_bytes_)) {
    return unexpected(ErrorCode::overloaded, std::to_string(num_pending) + " frames, " + std::to_string(pending_bytes) +
                                                 " bytes wait, at most " + std::to_string(max_frames_) + " frames, " +
                                                 std::to_string(max_bytes_) + " bytes may");
  }
  num_pending_ += 1;
  pending_bytes_ += size;
  frames_.push_back(std::move(frame));
  return frames_.size() == 1;
}

std::vector<Outbox::Frame> Outbox::take() {
  std::vector<Frame> frames;
  const std::lock_guard lock(mutex_);
  frames.swap(frames_);
  return frames;
}

ZmqMessage Outbox::to_message(Frame frame) {
  auto* const pending = new Pending{std::move(frame), shared_from_this(), false};  // release() takes it over
  pending->is_complete.store(true, std::memory_order_release);
  return {pending->frame.data(), pending->frame.size(), &Outbox::release, pending};
}

void Outbox::release(void* /*data*/, void* hint) {
  const std::unique_ptr<Pending> pending(static_cast<Pending*>(hint));
  static_cast<void>(pending->is_complete.load(std::memory_order_acquire));
  pending->outbox->forget(pending->frame.size());
}

void Outbox::forget(std::size_t size_bytes) {
  num_pending_ -= 1;
  pending_bytes_ -= static_cast<std::int64_t>(size_bytes);
}

void Outbox::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  for (const Frame& frame : std::exchange(frames_, {})) {
    forget(frame.size());
  }
}

}  // namespace memopd::detail

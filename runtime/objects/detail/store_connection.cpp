#include "runtime/objects/detail/store_connection.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "runtime/base/check.hpp"
#include "runtime/objects/detail/store_socket.hpp"
#include "runtime/wire/frame.hpp"

namespace memopd::detail {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kRetry{5};

Error gone(const Error& reason) {
  return {ErrorCode::target_down, "object server of this node is gone: " + reason.message};
}

/// Between requests nothing comes but the end.
bool has_ended(const Descriptor& socket) {
  pollfd item{socket.get(), POLLIN, 0};
  return ::poll(&item, 1, 0) == 1;
}

}  // namespace

Expected<void> StoreConnection::connect() {
  const std::lock_guard lock(mutex_);
  return open(true);
}

Expected<void> StoreConnection::open(bool is_expected) {
  const auto deadline = Clock::now() + patience_;
  while (true) {
    auto socket = connect_to(path_);
    if (socket) {
      MEMOPD_RETURN_IF_ERROR(check_peer_user(*socket));
      socket_ = *std::move(socket);
      return {};
    }
    const ErrorCode code = socket.error().code;
    const bool may_change = code == ErrorCode::overloaded || (is_expected && code == ErrorCode::target_down);
    if (!may_change || Clock::now() >= deadline) {
      return unexpected(socket.error());
    }
    std::this_thread::sleep_for(kRetry);  // nothing announces a socket that is not there yet
  }
}

Expected<StoreAnswer> StoreConnection::request(const StoreRequest& request, int descriptor, milliseconds longer) {
  const std::lock_guard lock(mutex_);
  if (socket_.is_open() && has_ended(socket_)) {
    socket_.reset();
  }
  if (!socket_.is_open()) {
    if (const auto opened = open(false); !opened) {
      return unexpected(opened.error().code == ErrorCode::target_down ? gone(opened.error()) : opened.error());
    }
  }
  auto answer = exchange(request, descriptor, patience_ + longer);
  if (!answer) {
    socket_.reset();
    return unexpected(answer.error().code == ErrorCode::target_down ? gone(answer.error()) : answer.error());
  }
  if (answer->reply.is_last) {
    socket_.reset();
  }
  if (answer->reply.error && !answer->reply.may_come) {
    return unexpected(*answer->reply.error);
  }
  return answer;
}

Expected<StoreAnswer> StoreConnection::exchange(const StoreRequest& request, int descriptor, milliseconds timeout) {
  const auto frame = encode_frame(request);
  MEMOPD_RETURN_IF_ERROR(frame);
  if (frame->size() > kMaxPacketBytes) {
    return unexpected(ErrorCode::invalid_argument, "object " + to_string(request.ref) + ": a type name of " +
                                                       std::to_string(request.type.size()) + " bytes, at most " +
                                                       std::to_string(kMaxTypeNameBytes));
  }
  const auto sent = send_packet(socket_.get(), *frame, descriptor);
  if (!sent && sent.error().code != ErrorCode::target_down) {
    return unexpected(sent.error());
  }
  auto packet = receive(sent ? timeout : milliseconds(0));  // a server that turns us away says why
  MEMOPD_RETURN_IF_ERROR(packet);
  auto reply = decode_frame<StoreReply>(packet->bytes);
  MEMOPD_RETURN_IF_ERROR(reply);
  if (packet->lost_descriptor) {
    return unexpected(system_error("object " + to_string(request.ref), EMFILE));
  }
  return StoreAnswer{*std::move(reply), std::move(packet->descriptor)};
}

Expected<Packet> StoreConnection::receive(milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (true) {
    auto packet = receive_packet(socket_.get());
    MEMOPD_RETURN_IF_ERROR(packet);
    if (packet->has_value()) {
      return **std::move(packet);
    }
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      return unexpected(ErrorCode::timeout,
                        "the object server did not answer within " + std::to_string(timeout.count()) + " ms");
    }
    pollfd item{socket_.get(), POLLIN, 0};
    ::poll(&item, 1, static_cast<int>(std::min<std::int64_t>(left, 1000)));
  }
}

}  // namespace memopd::detail

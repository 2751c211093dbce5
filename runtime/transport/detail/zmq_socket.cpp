#include "runtime/transport/detail/zmq_socket.hpp"

#include <array>
#include <cerrno>
#include <cstring>

#include "runtime/base/check.hpp"

namespace memopd::detail {

ZmqContext::ZmqContext() : context_(zmq_ctx_new()) {
  MEMOPD_CHECK(context_ != nullptr, "no ZeroMQ context");
  zmq_ctx_set(context_, ZMQ_MAX_SOCKETS, 16384);
}

ZmqContext::~ZmqContext() {
  while (zmq_ctx_term(context_) != 0 && errno == EINTR) {
  }
}

ZmqMessage::ZmqMessage(std::span<const std::byte> bytes) {
  MEMOPD_CHECK(zmq_msg_init_size(&message_, bytes.size()) == 0, "no memory for a message");
  if (!bytes.empty()) {
    std::memcpy(zmq_msg_data(&message_), bytes.data(), bytes.size());
  }
}

ZmqMessage::ZmqMessage(void* data, std::size_t size, zmq_free_fn* release, void* hint) {
  MEMOPD_CHECK(zmq_msg_init_data(&message_, data, size, release, hint) == 0, "no memory for a message");
}

std::span<const std::byte> ZmqMessage::bytes() const {
  return {static_cast<const std::byte*>(zmq_msg_data(&message_)), zmq_msg_size(&message_)};
}

std::string ZmqMessage::text() const {
  return {static_cast<const char*>(zmq_msg_data(&message_)), zmq_msg_size(&message_)};
}

int ZmqMessage::source_fd() const { return zmq_msg_get(&message_, ZMQ_SRCFD); }

std::string ZmqMessage::source_address() const {
  const char* const address = zmq_msg_gets(&message_, "Peer-Address");
  return address == nullptr || *address == '\0' ? "ipc" : address;
}

ZmqSocket::ZmqSocket(const ZmqContext& context, int type) : socket_(zmq_socket(context.get(), type)) {
  MEMOPD_CHECK(socket_ != nullptr, std::string("no ZeroMQ socket: ") + zmq_strerror(errno));
  set(ZMQ_LINGER, 0);
}

ZmqSocket::~ZmqSocket() { zmq_close(socket_); }

void ZmqSocket::set(int option, int value) {
  MEMOPD_CHECK(zmq_setsockopt(socket_, option, &value, sizeof value) == 0,
               "option " + std::to_string(option) + ": " + zmq_strerror(errno));
}

void ZmqSocket::set(int option, std::int64_t value) {
  MEMOPD_CHECK(zmq_setsockopt(socket_, option, &value, sizeof value) == 0,
               "option " + std::to_string(option) + ": " + zmq_strerror(errno));
}

void ZmqSocket::set(int option, std::string_view value) {
  MEMOPD_CHECK(zmq_setsockopt(socket_, option, value.data(), value.size()) == 0,
               "option " + std::to_string(option) + ": " + zmq_strerror(errno));
}

Expected<void> ZmqSocket::bind(const std::string& endpoint) {
  if (zmq_bind(socket_, endpoint.c_str()) == 0) {
    return {};
  }
  const int number = errno;
  return unexpected(number == EADDRINUSE ? ErrorCode::already_exists : ErrorCode::io_error,
                    "bind " + endpoint + ": " + zmq_strerror(number));
}

std::string ZmqSocket::last_endpoint() const {
  std::array<char, 512> endpoint{};
  std::size_t size = endpoint.size();
  MEMOPD_CHECK(zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, endpoint.data(), &size) == 0, "no last endpoint");
  return endpoint.data();
}

Expected<void> ZmqSocket::connect(const std::string& endpoint) {
  if (zmq_connect(socket_, endpoint.c_str()) == 0) {
    return {};
  }
  return unexpected(ErrorCode::invalid_argument, "connect " + endpoint + ": " + zmq_strerror(errno));
}

SendStatus ZmqSocket::send(ZmqMessage& message, bool more) {
  int result = 0;
  do {
    result = zmq_msg_send(message.get(), socket_, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0));
  } while (result < 0 && errno == EINTR);
  if (result >= 0) {
    return SendStatus::sent;
  }
  return errno == EAGAIN ? SendStatus::full : SendStatus::unreachable;
}

bool ZmqSocket::receive(ZmqMessage& message) {
  int result = 0;
  do {
    result = zmq_msg_recv(message.get(), socket_, ZMQ_DONTWAIT);
  } while (result < 0 && errno == EINTR);
  return result >= 0;
}

}  // namespace memopd::detail

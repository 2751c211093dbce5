// ZeroMQ's context, socket and message as values: closed in the right order, typed, without exceptions.
//
// A socket belongs to one thread at a time (R5). Options that this project sets are valid by construction: a refused one
// is our own bug (MEMOPD_CHECK); what depends on the outside (bind, connect, send) returns its error.
#pragma once

#include <zmq.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/expected.hpp"

namespace memopd::detail {

class ZmqContext {
 public:
  ZmqContext();
  /// Waits until every socket of it is closed.
  ~ZmqContext();
  ZmqContext(const ZmqContext&) = delete;
  ZmqContext& operator=(const ZmqContext&) = delete;
  [[nodiscard]] void* get() const { return context_; }

 private:
  void* context_;
};

class ZmqMessage {
 public:
  ZmqMessage() { zmq_msg_init(&message_); }
  explicit ZmqMessage(std::span<const std::byte> bytes);
  /// Without a copy: `release(data, hint)` is called once, on ZeroMQ's I/O thread or on the owner of the socket.
  ZmqMessage(void* data, std::size_t size, zmq_free_fn* release, void* hint);
  ~ZmqMessage() { zmq_msg_close(&message_); }
  ZmqMessage(ZmqMessage&& other) noexcept : ZmqMessage() { zmq_msg_move(&message_, &other.message_); }
  ZmqMessage& operator=(ZmqMessage&& other) noexcept {
    zmq_msg_move(&message_, &other.message_);
    return *this;
  }

  [[nodiscard]] std::span<const std::byte> bytes() const;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool has_more() const { return zmq_msg_more(&message_) != 0; }
  /// File descriptor of the connection it came over; -1 if unknown. Descriptors are reused after a disconnect.
  [[nodiscard]] int source_fd() const;
  /// Address of the peer as ZeroMQ knows it; "ipc" where there is none.
  [[nodiscard]] std::string source_address() const;
  [[nodiscard]] zmq_msg_t* get() { return &message_; }

 private:
  mutable zmq_msg_t message_;
};

enum class SendStatus { sent, full, unreachable };

class ZmqSocket {
 public:
  /// LINGER is 0 (R7).
  ZmqSocket(const ZmqContext& context, int type);
  ~ZmqSocket();
  ZmqSocket(const ZmqSocket&) = delete;
  ZmqSocket& operator=(const ZmqSocket&) = delete;

  void set(int option, int value);
  void set(int option, std::int64_t value);
  void set(int option, std::string_view value);
  /// @error io_error, already_exists (the address is in use)
  Expected<void> bind(const std::string& endpoint);
  /// The endpoint of the last bind, with the port that was given.
  [[nodiscard]] std::string last_endpoint() const;
  /// @error invalid_argument  not an endpoint
  Expected<void> connect(const std::string& endpoint);
  /// Never blocks. `message` is gone unless the result is `full`.
  [[nodiscard]] SendStatus send(ZmqMessage& message, bool more = false);
  /// Never blocks. False if there is none.
  [[nodiscard]] bool receive(ZmqMessage& message);
  [[nodiscard]] void* get() const { return socket_; }

 private:
  void* socket_;
};

}  // namespace memopd::detail

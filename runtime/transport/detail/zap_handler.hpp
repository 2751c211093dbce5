// ZapHandler: answers ZeroMQ's question who may connect (RFC 27), one per context (R7).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/transport/detail/event_loop.hpp"
#include "runtime/transport/detail/zmq_socket.hpp"

namespace memopd::detail {

struct ZapRequest {
  std::string address;
  std::string mechanism;                 ///< "CURVE", "PLAIN", "NULL"
  std::vector<std::string> credentials;  ///< CURVE: the client's public key, 32 bytes; PLAIN: name and password
};

class ZapHandler {
 public:
  using Admit = std::function<bool(const ZapRequest&)>;

  ZapHandler(EventLoop& loop, const ZmqContext& context, Admit admit);
  ~ZapHandler();
  ZapHandler(const ZapHandler&) = delete;
  ZapHandler& operator=(const ZapHandler&) = delete;

 private:
  void answer();
  void reply(ZmqMessage id, bool admitted);

  EventLoop& loop_;
  const Admit admit_;
  ZmqSocket socket_;
};

/// Compares in a time that does not depend on where they differ.
[[nodiscard]] bool equal_secrets(std::string_view a, std::string_view b);

}  // namespace memopd::detail

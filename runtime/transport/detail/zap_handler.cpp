#include "runtime/transport/detail/zap_handler.hpp"

#include <utility>

#include "runtime/base/check.hpp"

namespace memopd::detail {

ZapHandler::ZapHandler(EventLoop& loop, const ZmqContext& context, Admit admit)
    : loop_(loop), admit_(std::move(admit)), socket_(context, ZMQ_REP) {
  MEMOPD_CHECK(socket_.bind("inproc://zeromq.zap.01"), "a second ZAP handler in one context");
  loop_.watch(socket_.get(), [this] { answer(); });
}

ZapHandler::~ZapHandler() { loop_.unwatch(socket_.get()); }

void ZapHandler::answer() {
  // version, request id, domain, address, routing id, mechanism, credentials..
  std::vector<ZmqMessage> parts;
  do {
    ZmqMessage part;
    if (!socket_.receive(part)) {
      return;
    }
    parts.push_back(std::move(part));
  } while (parts.back().has_more());
  constexpr std::size_t kFixedParts = 6;
  MEMOPD_CHECK(parts.size() >= kFixedParts && parts[0].text() == "1.0", "ZeroMQ asks in another ZAP version");
  ZapRequest request{parts[3].text(), parts[5].text(), {}};
  for (std::size_t i = kFixedParts; i < parts.size(); ++i) {
    request.credentials.push_back(parts[i].text());
  }
  reply(std::move(parts[1]), admit_(request));
}

void ZapHandler::reply(ZmqMessage id, bool admitted) {
  const auto send = [this](std::string_view text, bool more) {
    ZmqMessage part(std::as_bytes(std::span(text)));
    MEMOPD_CHECK(socket_.send(part, more) == SendStatus::sent, "ZeroMQ takes no ZAP reply");
  };
  send("1.0", true);
  MEMOPD_CHECK(socket_.send(id, true) == SendStatus::sent, "ZeroMQ takes no ZAP reply");
  send(admitted ? "200" : "400", true);
  send(admitted ? "OK" : "not a member of this run", true);
  send("", true);   // user id
  send("", false);  // metadata
}

bool equal_secrets(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

}  // namespace memopd::detail

// ControlPlane: the control context of a process: where it listens, whom it dials, who is admitted.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/transport/detail/control_link.hpp"
#include "runtime/transport/detail/control_server.hpp"
#include "runtime/transport/detail/session_table.hpp"
#include "runtime/transport/detail/zap_handler.hpp"

namespace memopd::detail {

/// On the loop's thread once the loop runs, but for what SessionTable allows.
class ControlPlane {
 public:
  ControlPlane(EventLoop& loop, const ZmqContext& context, const TransportOptions& options,
               const TransportHandlers& handlers, RefusalLog& refusals);

  [[nodiscard]] Expected<std::vector<std::string>> listen();
  void dial(DialRequest request);
  [[nodiscard]] SessionTable& sessions() { return sessions_; }
  [[nodiscard]] const SessionTable& sessions() const { return sessions_; }

 private:
  [[nodiscard]] bool is_member(const ZapRequest& request) const;
  [[nodiscard]] bool yields_to_own_dial(const InstanceId& instance);

  EventLoop& loop_;
  const ZmqContext& context_;
  const TransportOptions& options_;
  const TransportHandlers& handlers_;
  const std::string member_key_;  // 32 bytes
  SessionTable sessions_;
  ZapHandler zap_;
  ControlServer server_;
  std::uint64_t last_link_ = 0;
  std::map<std::uint64_t, std::shared_ptr<ControlLink>> links_;
};

}  // namespace memopd::detail

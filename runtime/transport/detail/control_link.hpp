// ControlLink: the dialling end of one control link, from the first attempt to the end of its session.
//
// An attempt has a socket of its own, which is closed with it: what was queued on an old connection cannot reach a new one.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "runtime/transport/detail/session_table.hpp"
#include "runtime/transport/detail/socket_monitor.hpp"

namespace memopd::detail {

/// What a process answers whose own dial to the caller goes on; the caller then waits for that one.
inline constexpr std::string_view kCrossedDial = "crossed: the link in the other direction goes on";

class ControlLink final : public Route, public std::enable_shared_from_this<ControlLink> {
 public:
  struct Dependencies {
    EventLoop& loop;
    const ZmqContext& context;
    const TransportOptions& options;
    SessionTable& sessions;
  };
  /// The link has ended, in whatever state; an error if its dial came to nothing that has to be reported.
  using Ended = std::function<void(const std::optional<Error>&)>;

  ControlLink(const Dependencies& dependencies, DialRequest request, Ended ended);
  ~ControlLink() override;

  void start();
  /// Ends a dial without a report. Nothing once a session is open.
  void give_up();
  [[nodiscard]] bool is_dialling() const { return state_ == State::dialling; }
  [[nodiscard]] const DialRequest& request() const { return request_; }

  SendStatus send(ZmqMessage& message) override;
  void hang_up() override;

 private:
  enum class State { dialling, open, ended };
  struct Attempt;
  void begin_attempt();
  void end_attempt();
  void try_again();
  void read_events();
  void read_frames();
  void handle_frame(const ZmqMessage& frame);
  void handle_welcome(const LinkFrameView& view);
  void handle_refusal(const LinkFrameView& view);
  void connection_lost();
  void finish(const std::optional<Error>& error);

  const Dependencies dependencies_;
  const DialRequest request_;
  const Ended ended_;
  State state_ = State::dialling;
  std::chrono::milliseconds pause_{20};  // before the next attempt; doubles
  std::optional<EventLoop::TimerId> deadline_;
  std::optional<EventLoop::TimerId> retry_;
  std::shared_ptr<Attempt> attempt_;
  InstanceId peer_;  // once open
};

}  // namespace memopd::detail

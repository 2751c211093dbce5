// ActorCell: one living actor on its own context: dispatch, pending asks and their deadlines, open calls, its end.
//
// Everything here runs on the actor's context, one envelope at a time. Each turn is: handle one envelope, run the continuations that
// became ready, then end if a handler failed or a stop was requested.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "runtime/actor/actor.hpp"
#include "runtime/actor/detail/address.hpp"
#include "runtime/actor/detail/cluster_core.hpp"
#include "runtime/actor/detail/envelope.hpp"
#include "runtime/actor/detail/executor.hpp"

namespace memopd::detail {

/// A cooperative handler above this is logged, once per actor and message.
inline constexpr std::chrono::milliseconds kSlowHandler{50};

class ActorCell {
 public:
  ActorCell(std::shared_ptr<Address> address, ClusterCore& core);
  ~ActorCell();
  ActorCell(const ActorCell&) = delete;
  ActorCell& operator=(const ActorCell&) = delete;

  /// Runs the constructor of the actor, on the spawner's thread. @error internal  it threw
  Expected<void> construct(const ActorClass& actor_class, const void* init);
  /// One turn. @return false: the actor has ended; destroy the cell
  bool handle(Envelope envelope);
  /// Ends at once as a failure, without last words.
  void kill(std::string_view reason);

  // For Actor.
  void add_handler(const MessageType& type, Handler handler);
  void ask(const ActorRef& target, Payload message, std::chrono::milliseconds deadline, Callback<Answer> on_answer);
  void send_self(std::chrono::milliseconds delay, Payload message);
  void watch(const ActorRef& target, std::function<void(const Down&)> on_down);
  void fail(Error cause);
  void defer(Task task);
  [[nodiscard]] const ActorRef& self() const { return self_; }
  [[nodiscard]] const std::shared_ptr<Address>& address() const { return self_.address(); }
  [[nodiscard]] ClusterCore& core() const { return core_; }

 private:
  using Deadlines = std::multimap<std::chrono::nanoseconds, std::uint64_t>;
  struct Entry {
    const MessageType* type;
    Handler handler;
  };
  struct PendingAsk {
    Callback<Answer> on_answer;
    Deadlines::iterator deadline;
    std::string target;
    const MessageType* type;
    std::chrono::milliseconds allowed;
  };

  template <class F>
  void guarded(F&& f);
  void process(Envelope& envelope);
  void start();
  void dispatch(Envelope& envelope);
  [[nodiscard]] bool decode(const Entry& entry, Envelope& envelope);
  void invoke(const Entry& entry, Envelope& envelope);
  void refuse(const Envelope& envelope, std::string_view event, const Error& error);
  void refuse_unknown(const Envelope& envelope);
  void finish_call(std::uint64_t call, const MessageType& type, Answer answer);
  void note_slow_handler(const MessageType& type, std::chrono::nanoseconds duration);
  void resolve(std::uint64_t id, Answer answer);
  void arm();
  void expire();
  void run_ready();
  bool finish_turn();
  void end(bool is_failure, std::string reason);

  ClusterCore& core_;
  ActorRef self_;
  std::unique_ptr<Actor> actor_;
  std::unordered_map<std::string_view, Entry> handlers_;
  std::unordered_map<std::uint64_t, std::shared_ptr<ReplySlot>> open_calls_;  ///< by call, until answered
  std::unordered_map<std::uint64_t, PendingAsk> pending_;
  Deadlines deadlines_;
  std::chrono::nanoseconds armed_ = std::chrono::nanoseconds::max();
  std::unordered_map<std::uint64_t, std::function<void(const Down&)>> watches_;
  std::deque<Task> ready_;
  std::set<std::string> warned_;     ///< failed tells and refused messages that were logged
  std::set<std::string_view> slow_;  ///< messages whose slow handler was logged
  std::uint64_t next_id_;            ///< differs between the starts of an actor, so that late answers find nobody
  std::optional<Error> cause_;
  bool has_started_ = false;
  bool has_ended_ = false;
};

/// Makes `cell` the current one of this thread while it lives.
class CurrentCell {
 public:
  explicit CurrentCell(ActorCell* cell);
  ~CurrentCell();
  CurrentCell(const CurrentCell&) = delete;
  CurrentCell& operator=(const CurrentCell&) = delete;

 private:
  ActorCell* previous_;
};

}  // namespace memopd::detail

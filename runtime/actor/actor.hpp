// Actor: private state and short handlers, one at a time. The one include for whoever writes an actor.
//
// Invariants
//   1. An ask is answered exactly once: value, timeout, target_down, refused, bad_schema, overloaded, internal, or the
//      handler's own error; at the latest at its deadline.
//   2. Messages of one sender to one receiver are handled in the order they were sent.
//   3. Handlers and continuations of one actor never overlap; other messages are handled while a Later is pending.
//   4. An actor that is restarted begins anew; its references stay good (see ActorRef).
//   5. A handler that throws answers its asker `internal` with what(), then ends its actor; that is its first cause.
// A handler keeps below 50 ms (slower is logged once per message) unless the actor was spawned `blocking`.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "runtime/actor/actor_ref.hpp"
#include "runtime/actor/cluster.hpp"
#include "runtime/actor/detail/handler.hpp"
#include "runtime/actor/later.hpp"
#include "runtime/actor/registry.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/objects/object_store.hpp"
#include "runtime/wire/message.hpp"

namespace memopd {

/// All members are for the actor's own handlers and continuations; the constructor may use self(), rank(), group_size(),
/// cluster() and objects(). Constructed by Cluster::spawn only.
class Actor {
 public:
  Actor();
  virtual ~Actor();
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;

 protected:
  /// Registers the handlers: `on(&Counter::add)`. The first thing that runs on the actor's own context.
  virtual void setup() = 0;
  /// After setup: load, spawn, ask.
  virtual void started() {}
  /// Last words of an actor that is asked to stop (not of one that fails).
  virtual void stopping() {}

  /// Handles messages of type M by `R Derived::method(const M&)`; R = Expected<X>, Later<X> or void; X a message or void.
  /// The message lives until the answer is there. Two handlers of one message type are a bug (MEMOPD_CHECK).
  template <class R, class Derived, Message M>
  void on(R (Derived::*method)(const M&)) {
    auto* const derived = static_cast<Derived*>(this);
    add_handler(message_type<M>(),
                detail::make_handler<R, M>([derived, method](const M& m) { return (derived->*method)(m); }));
  }
  template <class R, class Derived, Message M>
  void on(R (Derived::*method)(const M&) const) {
    auto* const derived = static_cast<const Derived*>(this);
    add_handler(message_type<M>(),
                detail::make_handler<R, M>([derived, method](const M& m) { return (derived->*method)(m); }));
  }

  /// Sends a request. `deadline` > 0, from now on.
  template <class R, Message M>
  Later<R> ask(const ActorRef& target, M message, std::chrono::milliseconds deadline) {
    Promise<R> promise;
    auto later = promise.later();
    ask_any(target, make_payload(std::move(message)), deadline,
            [promise = std::move(promise)](detail::Answer answer) mutable {
              promise.deliver(detail::from_answer<R>(std::move(answer)));
            });
    return later;
  }
  /// Sends and forgets. @error overloaded, target_down  it was not sent
  template <Message M>
  Expected<void> tell(const ActorRef& target, M message) {
    return tell_any(target, make_payload(std::move(message)));
  }
  /// A message to itself after `delay` >= 0; never refused.
  template <Message M>
  void after(std::chrono::milliseconds delay, M message) {
    send_self(delay, make_payload(std::move(message)));
  }
  /// A message to itself behind what waits already: how a long job gives way between slices; never refused.
  template <Message M>
  void again(M message) {
    send_self(std::chrono::milliseconds(0), make_payload(std::move(message)));
  }
  /// Calls `on_down` once, here, when `target` ends; soon if it has ended already. Of an actor that is being restarted: at
  /// its next end.
  void watch(const ActorRef& target, std::function<void(const Down&)> on_down);
  /// Answers a request later: return promise.later(), keep the promise, deliver() to it.
  template <class R>
  [[nodiscard]] Promise<R> make_promise() {
    return Promise<R>();
  }
  /// Ends this actor after the current handler, with `cause`.
  void fail(Error cause);
  /// Ends this actor after the current handler, as planned.
  void stop_self(std::string_view reason);

  [[nodiscard]] Cluster& cluster() const;
  [[nodiscard]] ObjectStore& objects() const;
  [[nodiscard]] const ActorRef& self() const;
  [[nodiscard]] int rank() const;
  [[nodiscard]] int group_size() const;
  /// Counts the starts of this actor, from 1: above it, an earlier one of this name was lost with all that it knew.
  [[nodiscard]] std::int64_t incarnation() const;
  /// Of the cluster's clock since its start: virtual in the deterministic form. For delays and rates, never for results.
  [[nodiscard]] std::chrono::nanoseconds now() const;

 private:
  friend class detail::ActorCell;
  friend class ActorPool;

  void add_handler(const MessageType& type, detail::Handler handler);
  void ask_any(const ActorRef& target, Payload message, std::chrono::milliseconds deadline,
               detail::Callback<detail::Answer> on_answer);
  Expected<void> tell_any(const ActorRef& target, Payload message);
  void send_self(std::chrono::milliseconds delay, Payload message);

  detail::ActorCell* cell_ = nullptr;
};

}  // namespace memopd

// Executor: what differs between the schedulers: how envelopes reach a mailbox, and what time it is.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/actor/actor_ref.hpp"
#include "runtime/actor/detail/envelope.hpp"

namespace memopd::detail {

class Address;

class Executor {
 public:
  virtual ~Executor() = default;
  /// Since the cluster's start.
  [[nodiscard]] virtual std::chrono::nanoseconds now() const = 0;
  /// Puts `envelope` into a mailbox after `delay`; never lost. An actor that has ended destroys it.
  virtual void enqueue(const std::shared_ptr<Address>& to, Envelope envelope, std::chrono::nanoseconds delay) = 0;
  /// The same without delay for what passes from one actor to another; faults are injected here. An actor that is being
  /// restarted gets it afterwards. @error overloaded, target_down  it was not sent
  virtual Expected<void> carry(const std::string& from, const std::shared_ptr<Address>& to, Envelope envelope) = 0;
  virtual void carry_answer(const std::string& from, std::shared_ptr<AnswerSink> to, std::uint64_t id,
                            Answer answer) = 0;
  /// The last call about an actor, on its context: nothing of it is left.
  virtual void actor_ended(const Down& down) = 0;
};

}  // namespace memopd::detail

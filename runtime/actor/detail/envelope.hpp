// Envelope: what lies in a mailbox. ReplySlot: the promise that an ask is answered exactly once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "runtime/actor/actor_ref.hpp"
#include "runtime/actor/detail/answer.hpp"
#include "runtime/actor/detail/task.hpp"
#include "runtime/wire/message.hpp"

namespace memopd::detail {

/// Where answers go: the mailbox of an actor, or a Future.
class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  virtual void deliver(std::uint64_t id, Answer answer) = 0;
  [[nodiscard]] virtual const std::string& sink_name() const = 0;
};

/// The first answer() counts. A slot that is destroyed unanswered answers target_down if its target has ended, else
/// refused: so a request lost in a closing mailbox is answered all the same. Thread-safe.
class ReplySlot {
 public:
  ReplySlot(std::shared_ptr<AnswerSink> sink, std::uint64_t id, std::shared_ptr<Address> target);
  ~ReplySlot();
  ReplySlot(const ReplySlot&) = delete;
  ReplySlot& operator=(const ReplySlot&) = delete;

  void answer(Answer answer);
  /// A later start of the target is to answer: it was held meanwhile.
  void redirect(std::uint64_t incarnation) { incarnation_.store(incarnation); }
  /// No answer will come from here; the asker's deadline decides.
  void abandon() { is_answered_.store(true); }

 private:
  std::shared_ptr<AnswerSink> sink_;
  std::uint64_t id_;
  std::shared_ptr<Address> target_;
  std::atomic<std::uint64_t> incarnation_;  ///< of the target that is to answer
  std::atomic<bool> is_answered_{false};
};

enum class EnvelopeKind : std::uint8_t {
  start,    ///< setup() and started()
  message,  ///< payload, and reply if it was asked
  answer,   ///< to the ask `id`
  tick,     ///< deadlines may have passed
  down,     ///< of the watch `id`
  task,     ///< run it
  wake,     ///< look whether a stop was requested
};

struct Envelope {
  EnvelopeKind kind = EnvelopeKind::wake;
  std::uint64_t id = 0;
  std::uint64_t incarnation = 0;  ///< of the receiver when it was sent; only this one takes it up (CL-2)
  bool is_counted = false;        ///< in the bounded mailbox's depth
  Payload payload;                ///< of a message from this process
  std::shared_ptr<const EncodedMessage> encoded;  ///< of a message from another one
  std::shared_ptr<ReplySlot> reply;
  Answer answer;
  Down down;
  Task task;
};

}  // namespace memopd::detail

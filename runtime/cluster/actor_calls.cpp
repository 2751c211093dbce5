// Calls of actors over the links of their processes: out, in, and their answers.
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/cluster/actor_links.hpp"
#include "runtime/wire/frame.hpp"

namespace memopd {

/// The asker of a call that came from elsewhere: its answer goes back over the link.
class ActorLinks::RemoteAsker final : public detail::AnswerSink {
 public:
  RemoteAsker(std::weak_ptr<ActorLinks> links, InstanceId asker, std::string name)
      : links_(std::move(links)), asker_(asker), name_(std::move(name)) {}

  void deliver(std::uint64_t id, detail::Answer answer) override {
    const auto links = links_.lock();
    if (!links) {
      return;
    }
    ActorAnswer reply{id, std::move(answer.error), {}, 0, {}};
    if (!reply.error && answer.payload.type != nullptr) {
      reply.message = answer.payload.type->name.name;
      reply.version = answer.payload.type->name.version;
      if (answer.payload.value) {
        reply.body = answer.payload.type->encode(answer.payload.value.get());
      }
    }
    links->send_answer(asker_, reply);
  }
  [[nodiscard]] const std::string& sink_name() const override { return name_; }

 private:
  const std::weak_ptr<ActorLinks> links_;
  const InstanceId asker_;
  const std::string name_;
};

Expected<void> ActorLinks::carry(const std::string& from, const std::shared_ptr<detail::Address>& to,
                                 detail::Envelope envelope) {
  Aftermath aftermath;
  Expected<void> sent;
  {
    const std::lock_guard lock(mutex_);
    sent = carry_locked(from, to, envelope, aftermath);
  }
  if (!sent) {
    to->leave_mailbox();
    if (envelope.reply) {
      envelope.reply->abandon();  // the caller reports the error
    }
  }
  aftermath.run();
  return sent;
}

Expected<void> ActorLinks::carry_locked(const std::string& from, const std::shared_ptr<detail::Address>& to,
                                        detail::Envelope& envelope, Aftermath& aftermath) {
  const std::string& name = to->info().name;
  if (is_closed_ || transport_ == nullptr) {
    return unexpected(ErrorCode::target_down, name + " is down: this process is ending");
  }
  const ActorEntry* const entry = directory_.actor(name);
  Process& process = *processes_.find(entry->process)->second;
  if (to->hold(from, envelope)) {
    dial_if_needed(process);
    return {};
  }
  const MessageType& type = *envelope.payload.type;
  ActorCall call{from,
                 name,
                 to->incarnation(),
                 envelope.reply ? next_call_++ : 0,
                 std::string(type.name.name),
                 type.name.version,
                 type.encode(envelope.payload.value.get())};
  auto frame = encode_frame(call);
  if (!frame) {
    return unexpected(ErrorCode::invalid_argument, to_string(type.name) + " to " + name + ": " + frame.error().message);
  }
  auto sent = transport_->send(process.linked_instance, *frame);
  if (!sent && sent.error().code == ErrorCode::target_down) {
    // The link has ended and its notice is on the way here.
    lose_process(process, "link to " + process.entry.name + " lost", aftermath);
    return to->hold(from, envelope) ? Expected<void>() : sent;
  }
  if (!sent) {
    return sent;
  }
  if (envelope.reply) {
    open_calls_.emplace(call.call, OpenCall{std::move(envelope.reply), to, process.entry.name});
  } else {
    to->leave_mailbox();
  }
  return {};
}

void ActorLinks::carry_answer(const std::string&, std::shared_ptr<detail::AnswerSink> to, std::uint64_t id,
                              detail::Answer answer) {
  to->deliver(id, std::move(answer));
}

bool ActorLinks::take(const Peer& peer, const FrameView& frame, Expected<void>& result) {
  const auto decode_as = [&]<class M>(M*) -> Expected<M> {
    MEMOPD_RETURN_IF_ERROR(check_frame_type(frame, message_type<M>().name));
    return decode<M>(frame.body);
  };
  if (frame.name == "ActorCall") {
    auto call = decode_as(static_cast<ActorCall*>(nullptr));
    result = call ? take_call(peer, *call) : Expected<void>(unexpected(call.error()));
  } else if (frame.name == "ActorAnswer") {
    auto answer = decode_as(static_cast<ActorAnswer*>(nullptr));
    result = answer ? take_answer(peer, *std::move(answer)) : Expected<void>(unexpected(answer.error()));
  } else if (frame.name == "StopActor") {
    auto stop = decode_as(static_cast<StopActor*>(nullptr));
    result = stop ? Expected<void>() : Expected<void>(unexpected(stop.error()));
    if (stop) {
      const std::lock_guard lock(mutex_);
      if (const auto found = local_.find(stop->actor); found != local_.end()) {
        core_.stop(ActorRef(found->second), stop->reason);
      }
    }
  } else {
    return false;
  }
  return true;
}

Expected<void> ActorLinks::take_call(const Peer& peer, const ActorCall& call) {
  std::shared_ptr<detail::Address> target;
  {
    const std::lock_guard lock(mutex_);
    const ProcessEntry* const sender = directory_.process(peer.identity.role);
    if (sender != nullptr && sender->incarnation > peer.identity.incarnation) {
      return unexpected(ErrorCode::refused, peer.identity.role + " incarnation " +
                                                std::to_string(peer.identity.incarnation) + " was replaced by " +
                                                std::to_string(sender->incarnation));
    }
    if (const auto found = local_.find(call.to); found != local_.end()) {
      target = found->second;
    }
  }
  const auto refuse = [&](ErrorCode code, const std::string& text) {
    if (call.call != 0) {
      send_answer(peer.identity.instance, {call.call, Error{code, text}, {}, 0, {}});
    }
  };
  if (call.to_incarnation != incarnation_) {
    refuse(ErrorCode::target_down, call.to + " was restarted: incarnation " + std::to_string(incarnation_) +
                                       " is not " + std::to_string(call.to_incarnation));
    return unexpected(ErrorCode::refused, "call of incarnation " + std::to_string(call.to_incarnation));
  }
  if (!target) {
    refuse(ErrorCode::target_down, call.to + " does not live in " + self_);
    return {};
  }
  if (auto admitted = target->admit(); !admitted) {
    refuse(admitted.error().code, admitted.error().message);
    if (call.call == 0) {
      log_warning("cluster", "tell_refused",
                  {{"to", call.to}, {"from", call.from}, {"error", admitted.error().message}});
    }
    return {};
  }
  detail::Envelope envelope;
  envelope.kind = detail::EnvelopeKind::message;
  envelope.is_counted = true;
  envelope.encoded = std::make_shared<EncodedMessage>(EncodedMessage{call.message, call.version, call.body});
  if (call.call != 0) {
    envelope.reply = std::make_shared<detail::ReplySlot>(
        std::make_shared<RemoteAsker>(weak_from_this(), peer.identity.instance, call.from), call.call, target);
  }
  return core_.carry(call.from, target, std::move(envelope));
}

Expected<void> ActorLinks::take_answer(const Peer& peer, ActorAnswer answer) {
  OpenCall open;
  {
    const std::lock_guard lock(mutex_);
    auto found = open_calls_.extract(answer.call);
    if (!found) {
      return unexpected(ErrorCode::refused, "answer of " + peer.identity.role + " to call " +
                                                std::to_string(answer.call) + ", which is not open");
    }
    open = std::move(found.mapped());
  }
  open.target->leave_mailbox();
  detail::Answer result;
  if (answer.error) {
    result.error = std::move(answer.error);
  } else {
    result.encoded = std::make_shared<EncodedMessage>(
        EncodedMessage{std::move(answer.message), answer.version, std::move(answer.body)});
  }
  open.slot->answer(std::move(result));
  return {};
}

void ActorLinks::send_answer(const InstanceId& to, const ActorAnswer& answer) {
  auto frame = encode_frame(answer);
  if (!frame) {
    const Error error{ErrorCode::invalid_argument, "answer " + answer.message + ": " + frame.error().message};
    frame = encode_frame(ActorAnswer{answer.call, error, {}, 0, {}});
  }
  const std::lock_guard lock(mutex_);
  if (transport_ == nullptr) {
    return;
  }
  auto sent = waiting_answers_.empty() ? transport_->send(to, *frame)
                                       : Expected<void>(unexpected(ErrorCode::overloaded, "others wait"));
  if (!sent && sent.error().code == ErrorCode::overloaded) {
    waiting_answers_.emplace_back(to, *std::move(frame));  // bounded by the calls that are open here
  }
}

void ActorLinks::tick() {
  const std::lock_guard lock(mutex_);
  for (auto& [name, process] : processes_) {
    if (!process->is_linked && is_awaited(*process)) {
      dial_if_needed(*process);
    }
  }
  auto waiting = std::exchange(waiting_answers_, {});
  for (auto& [to, frame] : waiting) {
    const auto sent = transport_ != nullptr ? transport_->send(to, frame) : Expected<void>();
    if (!sent && sent.error().code == ErrorCode::overloaded) {
      waiting_answers_.emplace_back(to, std::move(frame));
    }
  }
}

void ActorLinks::stop(const ActorRef& actor, std::string_view reason) {
  const std::lock_guard lock(mutex_);
  const ActorEntry* const entry = directory_.actor(actor.name());
  const auto process = entry == nullptr ? processes_.end() : processes_.find(entry->process);
  if (process != processes_.end() && process->second->is_linked && transport_ != nullptr) {
    if (auto frame = encode_frame(StopActor{actor.name(), std::string(reason)})) {
      (void)transport_->send(process->second->linked_instance, *frame);
    }
  }
}

}  // namespace memopd

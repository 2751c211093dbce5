#include "runtime/actor/detail/actor_cell.hpp"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/base/log.hpp"

namespace memopd::detail {
namespace {

thread_local ActorCell* current = nullptr;
constexpr std::uint64_t kTell = 0;  // the call id of what nobody waits for

std::string describe(const Error& error) { return std::string(to_string(error.code)) + ": " + error.message; }

}  // namespace

ActorCell* current_cell() { return current; }

CurrentCell::CurrentCell(ActorCell* cell) : previous_(std::exchange(current, cell)) {}
CurrentCell::~CurrentCell() { current = previous_; }

ActorCell::ActorCell(std::shared_ptr<Address> address, ClusterCore& core)
    : core_(core), self_(std::move(address)), next_id_((self_.address()->incarnation() << 40) + 1) {}

ActorCell::~ActorCell() {
  // Only a cell that never started comes here alive: its group could not be constructed as a whole.
  const CurrentCell scope(this);
  has_ended_ = true;
  actor_.reset();
}

Expected<void> ActorCell::construct(const ActorClass& actor_class, const void* init) {
  const CurrentCell scope(this);
  try {
    actor_ = actor_class.make(init);
    return {};
  } catch (const std::exception& exception) {
    return unexpected(ErrorCode::internal, "constructor of " + self_.name() + " threw: " + exception.what());
  } catch (...) {
    return unexpected(ErrorCode::internal, "constructor of " + self_.name() + " threw");
  }
}

/// Runs `f`; what it throws becomes the cause of the actor's end.
template <class F>
void ActorCell::guarded(F&& f) {
  try {
    f();
  } catch (const std::exception& exception) {
    fail({ErrorCode::internal, exception.what()});
  } catch (...) {
    fail({ErrorCode::internal, "exception of unknown type"});
  }
}

bool ActorCell::handle(Envelope envelope) {
  const CurrentCell scope(this);
  if (envelope.is_counted) {
    address()->leave_mailbox();
  }
  // A requested stop comes before whatever waits; the envelope's reply slot answers for itself.
  if (!address()->is_stop_requested()) {
    process(envelope);
    run_ready();
  }
  return finish_turn();
}

void ActorCell::process(Envelope& envelope) {
  switch (envelope.kind) {
    case EnvelopeKind::start:
      start();
      break;
    case EnvelopeKind::message:
      dispatch(envelope);
      break;
    case EnvelopeKind::answer:
      resolve(envelope.id, std::move(envelope.answer));
      break;
    case EnvelopeKind::tick:
      expire();
      break;
    case EnvelopeKind::task:
      guarded([&] { envelope.task(); });
      break;
    case EnvelopeKind::wake:
      break;
    case EnvelopeKind::down:
      if (auto watch = watches_.extract(envelope.id)) {
        guarded([&] { watch.mapped()(envelope.down); });
      }
      break;
  }
}

void ActorCell::start() {
  has_started_ = true;
  guarded([this] {
    actor_->setup();
    address()->set_running();
    actor_->started();
  });
}

bool ActorCell::finish_turn() {
  if (cause_) {
    end(true, describe(*cause_));
  } else if (address()->is_stop_requested()) {
    if (has_started_) {
      guarded([this] { actor_->stopping(); });
      run_ready();
    }
    cause_ ? end(true, describe(*cause_)) : end(false, "stopped: " + address()->stop_reason());
  }
  return !has_ended_;
}

void ActorCell::kill(std::string_view reason) {
  const CurrentCell scope(this);
  end(true, "killed: " + std::string(reason));
}

void ActorCell::end(bool is_failure, std::string reason) {
  has_ended_ = true;
  Down down{self_.name(), reason, is_failure};
  down.may_return = core_.is_returning(down);
  const auto watchers =
      down.may_return ? address()->set_away(std::move(reason)) : address()->set_ended(is_failure, std::move(reason));
  for (auto& [slot, owner] : std::exchange(open_calls_, {})) {
    owner->answer({{}, address()->down_error()});
  }
  pending_.clear();
  ready_.clear();
  watches_.clear();
  actor_.reset();
  handlers_.clear();
  for (const auto& [watcher, id] : watchers) {
    Envelope envelope;
    envelope.kind = EnvelopeKind::down;
    envelope.id = id;
    envelope.down = down;
    core_.enqueue(watcher, std::move(envelope), {});
  }
  core_.actor_ended(down);
}

void ActorCell::run_ready() {
  while (!ready_.empty()) {
    Task task = std::move(ready_.front());
    ready_.pop_front();
    guarded([&] { task(); });
  }
}

void ActorCell::defer(Task task) {
  if (!has_ended_) {
    ready_.push_back(std::move(task));
  }
}

void ActorCell::fail(Error cause) {
  if (!cause_) {
    cause_ = std::move(cause);
  }
}

void ActorCell::add_handler(const MessageType& type, Handler handler) {
  const bool is_new = handlers_.emplace(type.name.name, Entry{&type, std::move(handler)}).second;
  MEMOPD_CHECK(is_new, "two handlers of message " + to_string(type.name) + " in " + self_.name());
}

void ActorCell::dispatch(Envelope& envelope) {
  const auto found =
      handlers_.find(envelope.encoded ? std::string_view(envelope.encoded->name) : envelope.payload.type->name.name);
  if (found == handlers_.end()) {
    refuse_unknown(envelope);
    return;
  }
  if (envelope.encoded && !decode(found->second, envelope)) {
    return;
  }
  if (!(*found->second.type == *envelope.payload.type)) {
    refuse_unknown(envelope);
    return;
  }
  const MessageType& type = *envelope.payload.type;
  const auto start = core_.now();
  address()->begin_call(type, start);
  invoke(found->second, envelope);
  const auto end = core_.now();
  address()->end_call(end);
  note_slow_handler(type, end - start);
}

void ActorCell::invoke(const Entry& entry, Envelope& envelope) {
  const std::uint64_t call = envelope.reply ? next_id_++ : kTell;
  if (envelope.reply) {
    open_calls_.emplace(call, envelope.reply);
  }
  const auto answer_internal = [&](std::string what) {
    finish_call(call, *entry.type, {{}, Error{ErrorCode::internal, what}});
    fail({ErrorCode::internal, std::move(what)});
  };
  try {
    entry.handler(envelope.payload.value,
                  [this, call, type = entry.type](Answer answer) { finish_call(call, *type, std::move(answer)); });
  } catch (const std::exception& exception) {
    answer_internal(exception.what());
  } catch (...) {
    answer_internal("exception of unknown type");
  }
}

void ActorCell::finish_call(std::uint64_t call, const MessageType& type, Answer answer) {
  if (auto open = open_calls_.extract(call)) {
    open.mapped()->answer(std::move(answer));
  } else if (call == kTell && answer.error && warned_.insert(std::string(type.name.name)).second) {
    // Nobody waits for the answer to a tell, so its error must be seen here.
    log_warning("actor", "tell_failed",
                {{"actor", self_.name()}, {"message", type.name.name}, {"error", answer.error->message}});
  }
}

/// What another process sent becomes a message here, on the actor's own context; false: it was none, and was refused.
bool ActorCell::decode(const Entry& entry, Envelope& envelope) {
  auto payload = decode_message(*envelope.encoded, *entry.type);
  if (!payload) {
    refuse(envelope, "undecodable_message",
           {ErrorCode::bad_schema, self_.name() + ": " + payload.error().message + ", from another process"});
    return false;
  }
  envelope.payload = *std::move(payload);
  return true;
}

void ActorCell::refuse(const Envelope& envelope, std::string_view event, const Error& error) {
  if (envelope.reply) {
    envelope.reply->answer({{}, error});
  } else if (warned_.emplace(error.message).second) {
    log_warning("actor", event, {{"actor", self_.name()}, {"error", error.message}});
  }
}

void ActorCell::refuse_unknown(const Envelope& envelope) {
  const MessageName name =
      envelope.encoded ? MessageName{envelope.encoded->name, envelope.encoded->version} : envelope.payload.type->name;
  std::string known;
  for (const auto& [key, entry] : handlers_) {
    known += (known.empty() ? "" : ", ") + to_string(entry.type->name);
  }
  refuse(envelope, "unknown_message",
         {ErrorCode::bad_schema, self_.name() + " has no handler of message " + to_string(name) +
                                     ", it handles: " + (known.empty() ? "none" : known)});
}

void ActorCell::note_slow_handler(const MessageType& type, std::chrono::nanoseconds duration) {
  if (duration <= kSlowHandler || address()->info().is_blocking || !slow_.insert(type.name.name).second) {
    return;
  }
  log_warning("actor", "slow_handler",
              {{"actor", self_.name()},
               {"message", type.name.name},
               {"duration_ms", std::chrono::duration<double, std::milli>(duration).count()},
               {"advice", "spawn it blocking, or yield with again()"}});
}

void ActorCell::ask(const ActorRef& target, Payload message, std::chrono::milliseconds deadline,
                    Callback<Answer> on_answer) {
  const std::uint64_t id = next_id_++;
  const MessageType& type = *message.type;
  const auto now = core_.now();
  // Ten years bound the arithmetic on clocks.
  const auto at = now + std::min<std::chrono::nanoseconds>(deadline, std::chrono::hours(24 * 3650));
  pending_.emplace(id, PendingAsk{std::move(on_answer), deadlines_.emplace(at, id), target.name(), &type, deadline});
  address()->begin_ask(id, target.name(), type, now);
  arm();
  std::shared_ptr<ReplySlot> slot;
  if (target) {
    slot = core_.make_slot(address(), id, target, message);
  }
  if (auto sent = core_.send(target, std::move(message), slot); !sent) {
    if (slot) {
      slot->abandon();
    }
    defer([this, id, error = sent.error()] { resolve(id, {{}, error}); });
  }
}

void ActorCell::resolve(std::uint64_t id, Answer answer) {
  auto ask = pending_.extract(id);
  if (!ask) {
    return;  // answered already, by its deadline or by the other copy of a duplicate
  }
  deadlines_.erase(ask.mapped().deadline);
  address()->end_ask(id);
  guarded([&] { ask.mapped().on_answer(std::move(answer)); });
}

void ActorCell::arm() {
  if (deadlines_.empty() || deadlines_.begin()->first >= armed_) {
    return;
  }
  armed_ = deadlines_.begin()->first;
  Envelope tick;
  tick.kind = EnvelopeKind::tick;
  core_.enqueue(address(), std::move(tick), std::max(armed_ - core_.now(), std::chrono::nanoseconds(0)));
}

void ActorCell::expire() {
  armed_ = std::chrono::nanoseconds::max();
  const auto now = core_.now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const PendingAsk& ask = pending_.at(deadlines_.begin()->second);
    resolve(deadlines_.begin()->second,
            {{},
             Error{ErrorCode::timeout, "no answer of " + ask.target + " to " + std::string(ask.type->name.name) +
                                           " within " + std::to_string(ask.allowed.count()) + " ms"}});
  }
  arm();
}

void ActorCell::send_self(std::chrono::milliseconds delay, Payload message) {
  Envelope envelope;
  envelope.kind = EnvelopeKind::message;
  envelope.payload = std::move(message);
  core_.enqueue(address(), std::move(envelope), delay);
}

void ActorCell::watch(const ActorRef& target, std::function<void(const Down&)> on_down) {
  const std::uint64_t id = next_id_++;
  watches_.emplace(id, std::move(on_down));
  if (target) {
    target.address()->add_watcher(address(), id);
    return;
  }
  Envelope envelope;
  envelope.kind = EnvelopeKind::down;
  envelope.id = id;
  envelope.down = {target.name(), "never was an actor", true};
  core_.enqueue(address(), std::move(envelope), {});
}

}  // namespace memopd::detail

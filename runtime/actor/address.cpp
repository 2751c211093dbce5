#include "runtime/actor/detail/address.hpp"

namespace memopd::detail {
namespace {

double age_ms(std::chrono::nanoseconds since, std::chrono::nanoseconds now) {
  return std::chrono::duration<double, std::milli>(now - since).count();
}

Down make_down(const Address& address, std::string reason, bool is_failure) {
  return {address.info().name, std::move(reason), is_failure};
}

/// Puts the notice into the mailbox of the watcher.
void notify(const std::shared_ptr<Address>& watcher, std::uint64_t id, Down down) {
  Envelope envelope;
  envelope.kind = EnvelopeKind::down;
  envelope.id = id;
  envelope.down = std::move(down);
  watcher->executor().enqueue(watcher, std::move(envelope), {});
}

}  // namespace

void TrafficLog::count(const std::string& to, std::size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  Count& count = counts_[to];
  ++count.num_messages;
  count.size_bytes += static_cast<std::int64_t>(size_bytes);
}

void TrafficLog::append_to(const std::string& from, std::vector<EdgeStatus>& edges) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [to, count] : counts_) {
    edges.push_back({from, to, count.num_messages, count.size_bytes});
  }
}

ReplySlot::ReplySlot(std::shared_ptr<AnswerSink> sink, std::uint64_t id, std::shared_ptr<Address> target)
    : sink_(std::move(sink)), id_(id), target_(std::move(target)), incarnation_(target_->incarnation()) {}

ReplySlot::~ReplySlot() {
  if (is_answered_.load()) {
    return;
  }
  answer({{},
          target_->is_alive() && target_->incarnation() == incarnation_
              ? Error{ErrorCode::refused, "request to " + target_->info().name + " was dropped"}
              : target_->down_error()});
}

void ReplySlot::answer(Answer answer) {
  if (!is_answered_.exchange(true)) {
    target_->executor().carry_answer(target_->info().name, std::move(sink_), id_, std::move(answer));
  }
}

void Address::deliver(std::uint64_t id, Answer answer) {
  if (!is_alive()) {
    return;
  }
  Envelope envelope;
  envelope.kind = EnvelopeKind::answer;
  envelope.id = id;
  envelope.answer = std::move(answer);
  executor_.enqueue(shared_from_this(), std::move(envelope), {});
}

Expected<void> Address::admit() {
  if (!is_expected()) {
    return unexpected(down_error());
  }
  if (depth_.fetch_add(1, std::memory_order_relaxed) >= info_.max_mailbox) {
    leave_mailbox();
    return unexpected(ErrorCode::overloaded,
                      "mailbox of " + info_.name + " is full: " + std::to_string(info_.max_mailbox) + " messages wait");
  }
  return {};
}

bool Address::is_alive() const {
  const std::lock_guard lock(mutex_);
  return state_ == ActorState::starting || state_ == ActorState::running;
}

bool Address::is_expected() const {
  const std::lock_guard lock(mutex_);
  return state_ != ActorState::ended && state_ != ActorState::failed;
}

Error Address::down_error() const {
  const std::lock_guard lock(mutex_);
  if (state_ == ActorState::starting || state_ == ActorState::running) {
    return {ErrorCode::target_down, info_.name + " was restarted: " + reason_};
  }
  const char* const what = state_ == ActorState::restarting ? " is being restarted: " : " is down: ";
  return {ErrorCode::target_down, info_.name + what + reason_};
}

void Address::set_running() {
  const std::lock_guard lock(mutex_);
  state_ = ActorState::running;
}

Address::Watchers Address::take_watchers_locked() {
  Watchers alive;
  for (auto& [weak, id] : std::exchange(watchers_, {})) {
    if (auto watcher = weak.lock()) {
      alive.emplace_back(std::move(watcher), id);
    }
  }
  return alive;
}

Address::Watchers Address::set_ended(bool is_failure, std::string reason) {
  std::deque<HeldEnvelope> held;  // destroyed, and so answered, after the lock is released
  const std::lock_guard lock(mutex_);
  state_ = is_failure ? ActorState::failed : ActorState::ended;
  reason_ = std::move(reason);
  is_away_ = false;
  pending_asks_.clear();
  held.swap(held_);
  return take_watchers_locked();
}

Address::Watchers Address::set_away(std::string reason) {
  const std::lock_guard lock(mutex_);
  is_away_ = true;
  state_ = reason.empty() ? ActorState::starting : ActorState::restarting;
  reason_ = std::move(reason);
  pending_asks_.clear();
  return take_watchers_locked();
}

std::deque<HeldEnvelope> Address::set_back(std::uint64_t incarnation) {
  const std::lock_guard lock(mutex_);
  incarnation_.store(incarnation, std::memory_order_release);
  is_away_ = false;
  state_ = ActorState::starting;
  stop_requested_.store(false);
  call_type_.store(nullptr, std::memory_order_release);
  return std::exchange(held_, {});
}

bool Address::is_away() const {
  const std::lock_guard lock(mutex_);
  return is_away_;
}

bool Address::is_awaited() const {
  const std::lock_guard lock(mutex_);
  return is_away_ && !held_.empty();
}

bool Address::hold(const std::string& from, Envelope& envelope) {
  const std::lock_guard lock(mutex_);
  if (!is_away_) {
    return false;
  }
  held_.push_back({from, std::move(envelope)});
  return true;
}

void Address::add_watcher(const std::shared_ptr<Address>& watcher, std::uint64_t id) {
  Down down;
  {
    const std::lock_guard lock(mutex_);
    if (state_ != ActorState::ended && state_ != ActorState::failed) {
      watchers_.emplace_back(watcher, id);
      return;
    }
    down = make_down(*this, reason_, state_ == ActorState::failed);
  }
  notify(watcher, id, std::move(down));
}

void Address::request_stop(std::string_view reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!stop_requested_.load()) {
      stop_reason_ = reason;
    }
  }
  stop_requested_.store(true);
}

std::string Address::stop_reason() const {
  const std::lock_guard lock(mutex_);
  return stop_reason_;
}

void Address::begin_call(const MessageType& type, std::chrono::nanoseconds now) {
  // Counted here, so that whoever has an answer sees its call counted.
  num_handled_.fetch_add(1, std::memory_order_relaxed);
  call_since_ns_.store(now.count(), std::memory_order_relaxed);
  call_type_.store(&type, std::memory_order_release);
}

void Address::end_call(std::chrono::nanoseconds now) {
  const std::int64_t since = call_since_ns_.load(std::memory_order_relaxed);
  call_type_.store(nullptr, std::memory_order_release);
  busy_ns_.fetch_add(now.count() - since, std::memory_order_relaxed);
}

void Address::begin_ask(std::uint64_t id, const std::string& target, const MessageType& type,
                        std::chrono::nanoseconds now) {
  const std::lock_guard lock(mutex_);
  pending_asks_.emplace(id, PendingAsk{target, type.name.name, now});
}

void Address::end_ask(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  pending_asks_.erase(id);
}

ActorStatus Address::status(std::chrono::nanoseconds now) const {
  ActorStatus status;
  status.name = info_.name;
  status.group = info_.group;
  status.type = info_.type;
  status.rank = info_.rank;
  status.is_blocking = info_.is_blocking;
  status.max_mailbox = info_.max_mailbox;
  status.num_handled = num_handled_.load(std::memory_order_relaxed);
  status.busy_ms =
      age_ms(std::chrono::nanoseconds(0), std::chrono::nanoseconds(busy_ns_.load(std::memory_order_relaxed)));
  if (const MessageType* const type = call_type_.load(std::memory_order_acquire); type != nullptr) {
    status.current_call = type->name.name;
    status.current_call_age_ms = age_ms(std::chrono::nanoseconds(call_since_ns_.load(std::memory_order_relaxed)), now);
    status.busy_ms += status.current_call_age_ms;
  }
  const std::lock_guard lock(mutex_);
  const bool is_over = state_ == ActorState::ended || state_ == ActorState::failed;
  status.state = !is_over && stop_requested_.load() ? ActorState::stopping : state_;
  status.reason = reason_;
  status.mailbox_depth = is_over ? 0 : depth_.load(std::memory_order_relaxed);
  status.num_pending_asks = static_cast<std::int64_t>(pending_asks_.size());
  if (!pending_asks_.empty()) {
    const PendingAsk& oldest = pending_asks_.begin()->second;
    status.waits_for = oldest.target;
    status.waits_for_message = oldest.message;
    status.waits_for_age_ms = age_ms(oldest.since, now);
  }
  return status;
}

void Address::set_route(std::shared_ptr<Route> route) {
  const std::lock_guard lock(mutex_);
  route_.swap(route);
}

std::shared_ptr<Route> Address::route() const {
  const std::lock_guard lock(mutex_);
  return route_;
}

}  // namespace memopd::detail

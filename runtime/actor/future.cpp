#include "runtime/actor/future.hpp"

#include <algorithm>

#include "runtime/actor/detail/future_state.hpp"
#include "runtime/actor/detail/task.hpp"
#include "runtime/base/check.hpp"

namespace memopd::detail {
namespace {

using Nanoseconds = std::chrono::nanoseconds;
using States = std::span<const std::shared_ptr<FutureState>>;

Nanoseconds steady_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

std::size_t count_ready(States states) {
  return static_cast<std::size_t>(
      std::count_if(states.begin(), states.end(), [](const auto& state) { return state->is_ready(); }));
}

/// The earliest moment at which something may expire, at most `end`.
Nanoseconds next_deadline(States states, Nanoseconds end) {
  for (const auto& state : states) {
    if (!state->is_ready()) {
      end = std::min(end, state->deadline());
    }
  }
  return end;
}

void wait_virtual(States states, std::size_t wanted, const std::chrono::milliseconds* limit) {
  VirtualTimeLink& link = *states.front()->link();
  const auto end = limit != nullptr && link.time != nullptr ? link.time->virtual_now() + *limit : Nanoseconds::max();
  while (count_ready(states) < wanted) {
    const auto now = link.time != nullptr ? link.time->virtual_now() : Nanoseconds::max();
    for (const auto& state : states) {
      state->expire(now);
    }
    if (now >= end || count_ready(states) >= wanted) {
      return;
    }
    const auto next = next_deadline(states, end);
    while (count_ready(states) < wanted && link.time->step(next)) {
    }
  }
}

void wait_real(States states, std::size_t wanted, const std::chrono::milliseconds* limit) {
  const auto end = limit != nullptr ? steady_now() + *limit : Nanoseconds::max();
  const auto waiter = std::make_shared<FutureWaiter>();
  for (const auto& state : states) {
    state->add_waiter(waiter);
  }
  while (true) {
    const auto now = steady_now();
    for (const auto& state : states) {
      state->expire(now);
    }
    std::unique_lock lock(waiter->mutex);
    if (waiter->num_completed >= wanted || now >= end) {
      return;
    }
    const std::size_t before = waiter->num_completed;
    lock.unlock();
    const auto next = next_deadline(states, end);
    lock.lock();
    // A day at a time: the clock's own range ends near Nanoseconds::max().
    const auto until = std::chrono::steady_clock::time_point(std::min(next, now + std::chrono::hours(24)));
    waiter->changed.wait_until(lock, until, [&] { return waiter->num_completed != before; });
  }
}

}  // namespace

void FutureState::deliver(std::uint64_t, Answer answer) {
  std::vector<std::weak_ptr<FutureWaiter>> waiters;
  {
    const std::lock_guard lock(mutex_);
    if (answer_ || is_taken_) {
      return;
    }
    answer_ = std::move(answer);
    waiters.swap(waiters_);
  }
  for (const auto& weak : waiters) {
    if (const auto waiter = weak.lock()) {
      const std::lock_guard lock(waiter->mutex);
      ++waiter->num_completed;
      waiter->changed.notify_all();
    }
  }
}

const std::string& FutureState::sink_name() const {
  static const std::string client = "client";
  return client;
}

bool FutureState::is_ready() const {
  const std::lock_guard lock(mutex_);
  return answer_.has_value() || is_taken_;
}

void FutureState::expire(std::chrono::nanoseconds now) {
  if (now >= deadline_ && !is_ready()) {
    deliver(0, {{},
                Error{ErrorCode::timeout,
                      "no answer of " + what_ + " within " + std::to_string(allowed_.count()) + " ms"}});
  }
}

void FutureState::add_waiter(const std::shared_ptr<FutureWaiter>& waiter) {
  const std::lock_guard lock(mutex_);
  if (answer_ || is_taken_) {
    const std::lock_guard waiter_lock(waiter->mutex);
    ++waiter->num_completed;
  } else {
    std::erase_if(waiters_, [](const auto& weak) { return weak.expired(); });
    waiters_.push_back(waiter);
  }
}

Answer FutureState::take() {
  const std::lock_guard lock(mutex_);
  MEMOPD_CHECK(answer_.has_value(), "the answer of a Future is taken once");
  Answer answer = *std::move(answer_);
  answer_.reset();
  is_taken_ = true;
  return answer;
}

std::vector<std::size_t> wait_ready(States states, std::size_t wanted, const std::chrono::milliseconds* limit) {
  MEMOPD_CHECK(current_cell() == nullptr, "waiting for a Future inside an actor: continue with Later::then");
  wanted = std::min(wanted, states.size());
  if (!states.empty()) {
    states.front()->link() ? wait_virtual(states, wanted, limit) : wait_real(states, wanted, limit);
  }
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (states[i]->is_ready()) {
      ready.push_back(i);
    }
  }
  return ready;
}

Answer take_answer(FutureState& state) {
  const std::shared_ptr<FutureState> shared(std::shared_ptr<void>(), &state);
  (void)wait_ready({&shared, 1}, 1, nullptr);
  return state.take();
}

}  // namespace memopd::detail

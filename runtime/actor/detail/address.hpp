// Address: the part of an actor that everyone may see and that outlives it: name, state, counters, watchers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/actor/detail/envelope.hpp"
#include "runtime/actor/detail/executor.hpp"
#include "runtime/actor/topology.hpp"
#include "runtime/base/expected.hpp"

namespace memopd::detail {

/// Messages and bytes by receiver. Thread-safe.
class TrafficLog {
 public:
  void count(const std::string& to, std::size_t size_bytes);
  void append_to(const std::string& from, std::vector<EdgeStatus>& edges) const;

 private:
  struct Count {
    std::int64_t num_messages = 0;
    std::int64_t size_bytes = 0;
  };
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Count> counts_;
};

/// A message that waits for its receiver to come back.
struct HeldEnvelope {
  std::string from;
  Envelope envelope;
};

/// The scheduler's own handle of an actor.
class Route {
 public:
  virtual ~Route() = default;
};

struct AddressInfo {
  std::string name;
  std::string group;
  std::string type;
  std::int32_t rank = 0;
  std::int32_t group_size = 1;
  bool is_blocking = false;
  std::int32_t max_mailbox = 1;
};

/// Thread-safe. An actor that is being restarted is away: it has no mailbox, what is sent to it is held.
class Address final : public AnswerSink, public std::enable_shared_from_this<Address> {
 public:
  Address(AddressInfo info, Executor& executor) : info_(std::move(info)), executor_(executor) {}

  [[nodiscard]] const AddressInfo& info() const { return info_; }
  [[nodiscard]] Executor& executor() const { return executor_; }
  void deliver(std::uint64_t id, Answer answer) override;
  [[nodiscard]] const std::string& sink_name() const override { return info_.name; }

  /// One more message waits. @error target_down, overloaded
  Expected<void> admit();
  void leave_mailbox() { depth_.fetch_sub(1, std::memory_order_relaxed); }

  [[nodiscard]] bool is_alive() const;
  /// Alive, or away and to return.
  [[nodiscard]] bool is_expected() const;
  /// Counts the starts of this actor, from 1.
  [[nodiscard]] std::uint64_t incarnation() const { return incarnation_.load(std::memory_order_acquire); }
  /// target_down with the reason of the end.
  [[nodiscard]] Error down_error() const;
  void set_running();
  using Watchers = std::vector<std::pair<std::shared_ptr<Address>, std::uint64_t>>;
  /// For good; what was held is answered with target_down. @return watchers to notify
  Watchers set_ended(bool is_failure, std::string reason);
  /// No mailbox until set_back(). `reason` empty: it has not started yet. @return watchers to notify
  Watchers set_away(std::string reason);
  /// It has a mailbox, under `incarnation`. @return what was held meanwhile, in order: carry it on before anything else
  std::deque<HeldEnvelope> set_back(std::uint64_t incarnation);
  [[nodiscard]] bool is_away() const;
  [[nodiscard]] bool is_awaited() const;  ///< away, and something is held for it
  /// Keeps `envelope` for an actor that is away; false: it is not, and nothing happened.
  bool hold(const std::string& from, Envelope& envelope);
  /// Notifies at once if the end has come already.
  void add_watcher(const std::shared_ptr<Address>& watcher, std::uint64_t id);
  void request_stop(std::string_view reason);
  [[nodiscard]] bool is_stop_requested() const { return stop_requested_.load(); }
  [[nodiscard]] std::string stop_reason() const;

  void begin_call(const MessageType& type, std::chrono::nanoseconds now);
  void end_call(std::chrono::nanoseconds now);
  void begin_ask(std::uint64_t id, const std::string& target, const MessageType& type, std::chrono::nanoseconds now);
  void end_ask(std::uint64_t id);
  [[nodiscard]] TrafficLog& traffic() { return traffic_; }
  [[nodiscard]] ActorStatus status(std::chrono::nanoseconds now) const;

  void set_route(std::shared_ptr<Route> route);
  [[nodiscard]] std::shared_ptr<Route> route() const;

 private:
  [[nodiscard]] Watchers take_watchers_locked();

  struct PendingAsk {
    std::string target;
    std::string_view message;
    std::chrono::nanoseconds since{0};
  };

  const AddressInfo info_;
  Executor& executor_;
  TrafficLog traffic_;
  std::atomic<std::uint64_t> incarnation_{1};
  std::atomic<std::int64_t> depth_{0};
  std::atomic<bool> stop_requested_{false};
  std::atomic<std::int64_t> num_handled_{0};
  std::atomic<const MessageType*> call_type_{nullptr};
  std::atomic<std::int64_t> call_since_ns_{0};
  std::atomic<std::int64_t> busy_ns_{0};  // of calls that have ended

  mutable std::mutex mutex_;  // guards what follows
  ActorState state_ = ActorState::starting;
  std::string reason_;
  std::string stop_reason_;
  bool is_away_ = false;
  std::deque<HeldEnvelope> held_;
  std::vector<std::pair<std::weak_ptr<Address>, std::uint64_t>> watchers_;
  std::map<std::uint64_t, PendingAsk> pending_asks_;
  std::shared_ptr<Route> route_;
};

}  // namespace memopd::detail

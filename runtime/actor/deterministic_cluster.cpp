#include "runtime/actor/deterministic_cluster.hpp"

#include <map>
#include <optional>
#include <utility>

#include "runtime/actor/detail/actor_cell.hpp"
#include "runtime/actor/detail/cluster_core.hpp"
#include "runtime/actor/detail/future_state.hpp"
#include "runtime/base/check.hpp"
#include "runtime/base/random.hpp"

namespace memopd {
namespace detail {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

/// What falls due at one moment: an envelope for a mailbox, an answer for a sink, or a call from outside.
struct Event {
  std::shared_ptr<Address> to;
  Envelope envelope;
  std::shared_ptr<AnswerSink> sink;
  Answer answer;
  bool kills = false;
  std::function<void()> call = nullptr;
};

class DeterministicClusterCore final : public DeterministicCluster, public ClusterCore, private VirtualTime {
 public:
  explicit DeterministicClusterCore(DeterministicOptions options)
      : ClusterCore(std::move(options.on_failure)),
        faults_(std::move(options.faults)),
        is_returning_(std::move(options.is_returning)) {
    link_->time = this;
  }
  ~DeterministicClusterCore() override {
    (void)shutdown({});
    link_->time = nullptr;
  }

  std::size_t run() override { return run_until(now_); }
  std::size_t run_for(std::chrono::milliseconds duration) override { return run_until(now_ + duration); }
  void advance(std::chrono::milliseconds duration) override { now_ += duration; }
  [[nodiscard]] Nanoseconds now() const override { return now_; }
  void set_faults(FaultHook hook) override { faults_ = std::move(hook); }

  void kill(const ActorRef& actor, std::string_view reason) override {
    MEMOPD_CHECK(current_cell() == nullptr, "kill inside an actor");
    if (auto cell = cells_.extract(actor.address().get())) {
      cell.mapped()->kill(reason);
    }
  }

  Expected<void> restart(const ActorRef& actor) override {
    MEMOPD_CHECK(current_cell() == nullptr, "restart inside an actor");
    const auto& address = actor.address();
    MEMOPD_CHECK(address->is_expected() && !address->is_alive(), "restart of an actor that is not away");
    return respawn(address);
  }

  void call_after(std::chrono::milliseconds delay, std::function<void()> call) override {
    Event event;
    event.call = std::move(call);
    add(now_ + delay, std::move(event));
  }

  [[nodiscard]] bool is_returning(const Down& down) override {
    return down.is_failure && !is_shut_down_ && is_returning_ && is_returning_(down);
  }

  ShutdownReport shutdown(std::chrono::milliseconds) override {
    MEMOPD_CHECK(current_cell() == nullptr, "shutdown inside an actor");
    if (!is_shut_down_) {
      is_shut_down_ = true;
      faults_ = nullptr;
      begin_shutdown();
      run();
      while (!events_.empty()) {
        auto gone = std::exchange(events_, {});  // the end of a request among them is its answer: a new event
        for (auto& [at, event] : gone) {
          if (event.sink) {
            handle(std::move(event));
          }
        }
      }
      MEMOPD_CHECK(cells_.empty(), "an actor outlived the shutdown of a deterministic cluster");
    }
    return {};
  }

  void enqueue(const std::shared_ptr<Address>& to, Envelope envelope, Nanoseconds delay) override {
    envelope.incarnation = to->incarnation();
    add(now_ + delay, {to, std::move(envelope), nullptr, {}, false});
  }

  Expected<void> carry(const std::string& from, const std::shared_ptr<Address>& to, Envelope envelope) override {
    if (to->hold(from, envelope)) {
      return {};
    }
    envelope.incarnation = to->incarnation();
    const std::string& receiver = to->info().name;
    const Fault fault = draw(from, receiver, envelope.payload.type->name.name, false);
    const Nanoseconds at = arrival(from, receiver, fault);
    if (fault.lose) {
      to->leave_mailbox();
      if (envelope.reply) {
        envelope.reply->abandon();
      }
      return {};
    }
    for (std::int32_t copy = 1; copy < fault.copies; ++copy) {
      Envelope duplicate;
      duplicate.kind = envelope.kind;
      duplicate.incarnation = envelope.incarnation;
      duplicate.payload = envelope.payload;
      duplicate.reply = envelope.reply;
      add(at, {to, std::move(duplicate), nullptr, {}, false});
    }
    add(at, {to, std::move(envelope), nullptr, {}, fault.kill_receiver});
    return {};
  }

  void carry_answer(const std::string& from, std::shared_ptr<AnswerSink> to, std::uint64_t id, Answer answer) override {
    const std::string_view name = answer.payload.type != nullptr ? answer.payload.type->name.name : "error";
    const Fault fault = draw(from, to->sink_name(), name, true);
    const Nanoseconds at = arrival(from, to->sink_name(), fault);
    if (fault.lose) {
      return;
    }
    for (std::int32_t copy = 0; copy < fault.copies; ++copy) {
      Event event{nullptr, {}, to, answer, false};
      event.envelope.id = id;
      add(at, std::move(event));
    }
  }

 private:
  void host(std::unique_ptr<ActorCell> cell) override {
    const Address* const address = cell->address().get();
    cells_.emplace(address, std::move(cell));
  }

  std::shared_ptr<FutureState> make_future(std::string what, std::chrono::milliseconds timeout) override {
    return std::make_shared<FutureState>(std::move(what), now_ + timeout, timeout, link_);
  }

  [[nodiscard]] Nanoseconds virtual_now() const override { return now_; }

  bool step(Nanoseconds limit) override {
    if (events_.empty() || events_.begin()->first.first > limit) {
      now_ = std::max(now_, limit);
      return false;
    }
    auto node = events_.extract(events_.begin());
    now_ = std::max(now_, node.key().first);
    handle(std::move(node.mapped()));
    return true;
  }

  std::size_t run_until(Nanoseconds limit) {
    MEMOPD_CHECK(current_cell() == nullptr, "running the cluster inside an actor");
    std::size_t handled = 0;
    while (step(limit)) {
      ++handled;
    }
    return handled;
  }

  void handle(Event event) {
    if (event.call) {
      event.call();
      return;
    }
    if (event.sink) {
      event.sink->deliver(event.envelope.id, std::move(event.answer));
      return;
    }
    const auto found = cells_.find(event.to.get());
    if (found == cells_.end() || event.envelope.incarnation != event.to->incarnation()) {
      if (event.envelope.is_counted) {
        event.to->leave_mailbox();
      }
      return;  // it has ended, or is another one now; the envelope's reply slot answers
    }
    if (event.kills) {
      event.to->leave_mailbox();
      cells_.extract(found).mapped()->kill("by an injected fault");
    } else if (!found->second->handle(std::move(event.envelope))) {
      cells_.erase(event.to.get());
    }
  }

  void add(Nanoseconds at, Event event) { events_.emplace(std::pair(at, next_sequence_++), std::move(event)); }

  Fault draw(const std::string& from, const std::string& to, std::string_view message, bool is_answer) {
    if (!faults_ || from == to) {
      return {};
    }
    return faults_({from, to, message, is_answer, next_delivery_++});
  }

  /// Delays keep the order of a pair: nothing arrives before what was sent earlier.
  Nanoseconds arrival(const std::string& from, const std::string& to, const Fault& fault) {
    if (fault.delay.count() <= 0 && last_arrival_.empty()) {
      return now_;
    }
    Nanoseconds& last = last_arrival_[{from, to}];
    last = std::max(last, now_ + fault.delay);
    return last;
  }

  FaultHook faults_;
  const std::function<bool(const Down&)> is_returning_;
  Nanoseconds now_{0};
  std::map<std::pair<Nanoseconds, std::uint64_t>, Event> events_;
  std::map<const Address*, std::unique_ptr<ActorCell>> cells_;
  std::map<std::pair<std::string, std::string>, Nanoseconds> last_arrival_;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t next_delivery_ = 0;
  bool is_shut_down_ = false;
  const std::shared_ptr<VirtualTimeLink> link_ = std::make_shared<VirtualTimeLink>();
};

}  // namespace
}  // namespace detail

FaultHook seeded_faults(std::uint64_t seed, const FaultRates& rates) {
  return [seed, rates](const Delivery& delivery) {
    const auto uniform = [&](std::uint64_t draw) { return philox_uniform(seed, delivery.index, draw); };
    Fault fault;
    fault.lose = uniform(0) < rates.lose;
    fault.copies = uniform(1) < rates.duplicate ? 2 : 1;
    fault.kill_receiver = !delivery.is_answer && uniform(2) < rates.kill;
    fault.delay = std::chrono::milliseconds(
        static_cast<std::int64_t>(uniform(3) * static_cast<double>(rates.max_delay.count() + 1)));
    return fault;
  };
}

std::unique_ptr<DeterministicCluster> make_deterministic_cluster(DeterministicOptions options) {
  return std::make_unique<detail::DeterministicClusterCore>(std::move(options));
}

}  // namespace memopd

// DeterministicCluster: the same actors on one thread, in virtual time, with injected loss, delay, duplicates and death.
//
// Two clusters with the same seed, hook and calls do the same in the same order. Messages of one pair stay in order under
// any delay. Time passes only in run_for, advance and while a Future waits; nothing ever sleeps.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "runtime/actor/cluster.hpp"
#include "runtime/base/expected.hpp"

namespace memopd {

/// One message or answer on its way from one actor to another (or to or from "client"); timers and messages to itself are never hurt.
struct Delivery {
  std::string_view from;
  std::string_view to;
  std::string_view message;  ///< "Add"
  bool is_answer = false;
  std::uint64_t index = 0;  ///< of this delivery in the cluster's life
};

/// What happens to it. The default: nothing.
struct Fault {
  bool lose = false;
  std::chrono::milliseconds delay{0};  ///< >= 0
  std::int32_t copies = 1;             ///< >= 1; more than one = duplicates
  bool kill_receiver = false;          ///< the receiver dies instead of handling it
};
using FaultHook = std::function<Fault(const Delivery&)>;

struct FaultRates {
  double lose = 0;                         ///< probability per delivery, [0, 1]
  double duplicate = 0;                    ///< likewise
  double kill = 0;                         ///< likewise
  std::chrono::milliseconds max_delay{0};  ///< uniform in [0, max_delay]
};
/// A hook that draws from `seed` and Delivery::index only.
[[nodiscard]] FaultHook seeded_faults(std::uint64_t seed, const FaultRates& rates);

struct DeterministicOptions {
  std::function<void(const Down&)> on_failure = nullptr;
  FaultHook faults = nullptr;  ///< empty: none
  /// Whether an actor that failed will be restarted (by restart()): its references stay good. Empty: never.
  std::function<bool(const Down&)> is_returning = nullptr;
};

class DeterministicCluster : public virtual Cluster {
 public:
  /// Handles everything that is due now; no time passes. @return messages handled
  virtual std::size_t run() = 0;
  /// Handles everything that falls due within `duration`, in order; then the clock stands `duration` later.
  virtual std::size_t run_for(std::chrono::milliseconds duration) = 0;
  /// Moves the clock only: inside a handler it makes the handler slow, outside it makes timers due.
  virtual void advance(std::chrono::milliseconds duration) = 0;
  /// Virtual time since the start.
  [[nodiscard]] virtual std::chrono::nanoseconds now() const = 0;
  /// Ends an actor at once, as kill -9 would: no last words, the rest of its mailbox is target_down.
  virtual void kill(const ActorRef& actor, std::string_view reason) = 0;
  /// Starts an actor again that failed and is to return: a new object from the same init message, under the next
  /// incarnation. What was on its way to the old one is lost (CL-2); what was sent since then it gets.
  /// @error internal  its constructor threw: it has ended
  virtual Expected<void> restart(const ActorRef& actor) = 0;
  /// Runs `call` outside the actors at a moment `delay` from now.
  virtual void call_after(std::chrono::milliseconds delay, std::function<void()> call) = 0;
  virtual void set_faults(FaultHook hook) = 0;
};

[[nodiscard]] std::unique_ptr<DeterministicCluster> make_deterministic_cluster(DeterministicOptions options = {});

}  // namespace memopd
